#include "client/export/job_points.h"

#include <algorithm>
#include <set>

#include "client/command_line/errors.h"
#include "client/connection/connection.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "compare/run.h"

namespace muster::client {
namespace {

bool IsSelected(const std::string& name, const PointSelection& selection) {
  return selection.keys.empty() ||
         std::any_of(selection.keys.begin(), selection.keys.end(),
                     [&](const std::string& key) { return compare::MatchesKey(name, key); });
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> RanksOfPoints(const std::string& job,
                                                    const v1::MetricSummaries& summaries,
                                                    const PointSelection& selection) {
  std::vector<std::string_view> names;
  std::set<uint32_t> ranks;
  for (const v1::MetricSummary& summary : summaries.summaries()) {
    names.push_back(summary.name());
    const bool of_rank = selection.rank < 0 || summary.rank() == selection.rank;
    if (of_rank && IsSelected(summary.name(), selection)) {
      ranks.insert(static_cast<uint32_t>(summary.rank()));
    }
  }
  for (const std::string& key : selection.keys) {
    const bool known = std::any_of(names.begin(), names.end(), [&](std::string_view name) {
      return compare::MatchesKey(name, key);
    });
    if (!known) {
      return common::MakeProblem(
          absl::StatusCode::kNotFound,
          {.code = "JC1503",
           .what = common::StrCat(job, " has no metric \"", key, "\"",
                                  common::DidYouMean(common::Nearest(key, names))),
           .fix = common::StrCat("jobctl metrics ", job)});
    }
  }
  return std::vector<uint32_t>(ranks.begin(), ranks.end());
}

absl::Status ForEachPoint(Connection& connection, const std::string& job,
                          const v1::MetricSummaries& summaries, const PointSelection& selection,
                          const OnPoint& on_point) {
  std::set<std::string> names;
  for (const v1::MetricSummary& summary : summaries.summaries()) {
    if (IsSelected(summary.name(), selection)) names.insert(summary.name());
  }
  if (names.empty()) return absl::OkStatus();
  v1::QueryMetricsRequest request;
  request.set_job(job);
  if (!selection.keys.empty()) request.mutable_names()->Assign(names.begin(), names.end());
  request.set_attempt(static_cast<int32_t>(selection.attempt));
  request.set_rank(static_cast<int32_t>(selection.rank));
  absl::Status taken;
  RETURN_IF_ERROR(connection.QueryMetrics(request, [&](const v1::MetricBatch& batch) {
    for (const v1::MetricPoint& point : batch.points()) {
      taken = on_point({.job = job,
                        .attempt = batch.attempt(),
                        .rank = batch.rank(),
                        .step = point.step(),
                        .time_ms = point.time_ms(),
                        .name = point.name(),
                        .value = point.value()});
      if (!taken.ok()) return false;
    }
    return true;
  }));
  return taken;
}

}  // namespace muster::client
