// A job's metrics as a run. The coordinator leaves out what a later attempt replaced.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "client/compare/read_run.h"
#include "client/connection/connection.h"
#include "common/base/status.h"

namespace muster::client {

absl::StatusOr<compare::ComparedRun> ReadJobRun(Connection& connection, const std::string& job,
                                                const compare::WantedMetrics& wanted,
                                                compare::PointBudget* budget,
                                                v1::JobRecord* record) {
  ASSIGN_OR_RETURN(v1::GetJobResponse response, connection.GetJob(job));
  const std::string name = response.record().name();
  ASSIGN_OR_RETURN(const v1::MetricSummaries summaries, connection.SummarizeMetrics(name));
  compare::RunBuilder run(wanted, budget);
  // A thousand ranks may have logged the same metric: only the points of one are fetched.
  std::map<std::string, int32_t> ranks;
  for (const v1::MetricSummary& summary : summaries.summaries()) {
    run.Know(summary.name());
    if (!compare::IsWanted(summary.name(), wanted)) continue;
    if (wanted.rank >= 0 && summary.rank() != wanted.rank) continue;
    const auto [entry, is_new] = ranks.emplace(summary.name(), summary.rank());
    if (!is_new) entry->second = std::min(entry->second, summary.rank());
  }
  std::map<int32_t, std::set<std::string>> by_rank;
  for (const auto& [metric, rank] : ranks) by_rank[rank].insert(metric);
  for (const auto& [rank, metrics] : by_rank) {
    v1::QueryMetricsRequest request;
    request.set_job(name);
    request.mutable_names()->Assign(metrics.begin(), metrics.end());
    request.set_attempt(-1);
    request.set_rank(rank);
    absl::Status added;
    RETURN_IF_ERROR(connection.QueryMetrics(request, [&](const v1::MetricBatch& batch) {
      for (const v1::MetricPoint& point : batch.points()) {
        added = run.Add(point.name(), batch.rank(), point.step(), point.value());
        if (!added.ok()) return false;
      }
      return true;
    }));
    RETURN_IF_ERROR(added);
  }
  *record = std::move(*response.mutable_record());
  return run.Finish(name);
}

}  // namespace muster::client
