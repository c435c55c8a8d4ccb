// gather: one call after the other, each bounded.
#include "client/diagnosis/gather.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "client/command_line/errors.h"
#include "client/compare/csv_rows.h"
#include "client/connection/connection.h"
#include "client/diagnosis/first_cause.h"
#include "client/text/record_text.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr uint32_t kEventsRead = 10'000;
constexpr uint64_t kTailLines = 200;
constexpr uint64_t kBundleTailLines = 50'000;
constexpr size_t kTailBytesMax = 64 * 1024;
// More points would be read only to learn when the last one came.
constexpr uint64_t kPointsForTime = 200'000;
constexpr size_t kPointsMax = 200'000;
constexpr size_t kRecordBytesMax = 64 << 20;

void NoteGap(const absl::Status& status, const std::string& what, std::vector<std::string>* gaps) {
  if (!status.ok()) gaps->push_back(StrCat(what, ": ", Sentence(status)));
}

void GatherEvents(Connection& connection, CaseFile* file) {
  v1::ListEventsRequest request;
  request.set_job(std::to_string(file->job.id()));
  request.set_limit(kEventsRead);
  NoteGap(connection.ListEvents(request,
                                [&](const v1::EventBatch& batch) {
                                  for (int i = 0; i < batch.events_size(); ++i) {
                                    const v1::Event& event = batch.events(i);
                                    file->events.push_back(
                                        {event.at_ms(), event.node(),
                                         i < batch.texts_size() ? batch.texts(i) : ""});
                                  }
                                  return true;
                                }),
          "events", &file->gaps);
}

void GatherNodes(Connection& connection, CaseFile* file) {
  const absl::StatusOr<v1::ListNodesResponse> nodes = connection.ListNodes();
  if (!nodes.ok()) return NoteGap(nodes.status(), "nodes", &file->gaps);
  file->nodes.assign(nodes->nodes().begin(), nodes->nodes().end());
  if (!nodes->alarm().empty()) file->gaps.push_back(StrCat("the cluster: ", nodes->alarm()));
}

void GatherMetrics(Connection& connection, CaseFile* file) {
  const std::string job = std::to_string(file->job.id());
  const absl::StatusOr<v1::MetricSummaries> summaries = connection.SummarizeMetrics(job);
  if (!summaries.ok()) return NoteGap(summaries.status(), "metrics", &file->gaps);
  file->metrics.assign(summaries->summaries().begin(), summaries->summaries().end());
  const v1::MetricSummary* furthest = nullptr;
  for (const v1::MetricSummary& metric : file->metrics) {
    if (metric.count() <= kPointsForTime &&
        (furthest == nullptr || metric.last_step() > furthest->last_step())) {
      furthest = &metric;
    }
  }
  if (furthest == nullptr) return;
  v1::QueryMetricsRequest request;
  request.set_job(job);
  request.add_names(furthest->name());
  request.set_attempt(-1);
  request.set_rank(furthest->rank());
  NoteGap(connection.QueryMetrics(request,
                                  [&](const v1::MetricBatch& batch) {
                                    for (const v1::MetricPoint& point : batch.points()) {
                                      file->last_metric_ms =
                                          std::max<int64_t>(file->last_metric_ms, point.time_ms());
                                    }
                                    return true;
                                  }),
          "the time of the last metric", &file->gaps);
}

void GatherStacks(Connection& connection, int64_t wait_ms, CaseFile* file) {
  v1::DiagnoseJobRequest request;
  request.set_job(std::to_string(file->job.id()));
  request.set_wait_ms(static_cast<uint32_t>(wait_ms));
  size_t bytes = 0;
  NoteGap(connection.DiagnoseJob(request,
                                 [&](const v1::DiagnoseJobUpdate& update) {
                                   if (!update.has_diagnosis()) return true;
                                   const std::string& text = update.diagnosis().record();
                                   absl::StatusOr<RankRecord> record = ParseRankRecord(text);
                                   if (!record.ok()) return true;
                                   record->rank = static_cast<int>(update.diagnosis().rank());
                                   record->host = update.diagnosis().node();
                                   file->records.push_back(*std::move(record));
                                   file->raw_records.push_back(text);
                                   return (bytes += text.size()) < kRecordBytesMax;
                                 }),
          "the ranks' stacks", &file->gaps);
}

}  // namespace

absl::StatusOr<CaseFile> Gather(Connection& connection, const std::string& job,
                                const GatherOptions& options) {
  CaseFile file;
  ASSIGN_OR_RETURN(v1::GetJobResponse response, connection.GetJob(job));
  file.now_ms = WallMs();
  file.client_version = common::kVersion;
  file.server = connection.server();
  file.job = *response.mutable_record();
  file.summary = response.summary();
  GatherEvents(connection, &file);
  GatherNodes(connection, &file);
  GatherMetrics(connection, &file);
  if (file.job.state() == v1::JOB_STATE_RUNNING) {
    GatherStacks(connection, options.stack_wait_ms, &file);
  } else if (!IsOver(file.job.state())) {
    const absl::StatusOr<v1::WhyResponse> why = connection.WhyJob(std::to_string(file.job.id()));
    NoteGap(why.status(), "what it waits for", &file.gaps);
    if (why.ok()) file.why = why->text();
  }
  return file;
}

std::string TailOf(Connection& connection, const CaseFile& file, uint32_t rank, size_t bytes_max,
                   std::vector<std::string>* gaps) {
  const v1::Attempt* attempt = AttemptTold(file.job);
  if (attempt == nullptr) return "";
  v1::StreamLogsRequest request;
  request.set_job(std::to_string(file.job.id()));
  request.set_attempt(static_cast<int32_t>(attempt->number()));
  request.add_ranks(rank);
  request.set_tail_lines(bytes_max > kTailBytesMax ? kBundleTailLines : kTailLines);
  std::string tail;
  NoteGap(connection.StreamLogs(request,
                                [&](const v1::LogRecord& record) {
                                  tail += record.data();
                                  // Trimmed rarely, because erasing copies.
                                  if (tail.size() > 2 * bytes_max)
                                    tail.erase(0, tail.size() - bytes_max);
                                  return true;
                                }),
          StrCat("the output of rank ", rank), gaps);
  if (tail.size() > bytes_max) {
    tail.erase(0, tail.size() - bytes_max);
    // Whole lines: secrets are found by line.
    tail.erase(0, std::min(tail.find('\n'), tail.size() - 1) + 1);
  }
  return tail;
}

void GatherTails(Connection& connection, const std::vector<uint32_t>& ranks, CaseFile* file) {
  for (const uint32_t rank : ranks) {
    file->tails[rank] = TailOf(connection, *file, rank, kTailBytesMax, &file->gaps);
  }
}

std::string MetricRows(Connection& connection, const CaseFile& file,
                       std::vector<std::string>* gaps) {
  v1::QueryMetricsRequest request;
  request.set_job(std::to_string(file.job.id()));
  request.set_attempt(-1);
  request.set_rank(-1);
  std::string rows = "name,step,value,rank,attempt,time_ms\n";
  size_t points = 0;
  NoteGap(connection.QueryMetrics(request,
                                  [&](const v1::MetricBatch& batch) {
                                    for (const v1::MetricPoint& point : batch.points()) {
                                      if (++points > kPointsMax) return false;
                                      absl::StrAppendFormat(&rows, "%s,%d,%.17g,%d,%d,%d\n",
                                                            CsvField(point.name()), point.step(),
                                                            point.value(), batch.rank(),
                                                            batch.attempt(), point.time_ms());
                                    }
                                    return true;
                                  }),
          "metrics", gaps);
  if (points > kPointsMax)
    gaps->push_back(StrCat("metrics.csv ends after ", kPointsMax, " points"));
  return rows;
}

}  // namespace muster::client
