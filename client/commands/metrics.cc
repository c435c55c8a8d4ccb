// jobctl metrics.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "client/arguments.h"
#include "client/commands/commands.h"
#include "client/connection.h"
#include "client/errors.h"
#include "client/listing.h"
#include "client/session.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr Flag kFlags[] = {
    {"key", 0, "NAME", "only this metric; may be given again"},
    {"rank", 0, "N", "only what this rank reported"},
    {"attempt", 0, "N", "only this attempt (default: the line the job followed)"},
    {"points", 0, "",
     "every point instead of the summary (the default with -o csv, json and jsonl)"},
};

Cell Real(double value) { return Cell(Value(value), absl::StrFormat("%.5g", value)); }

std::string Sparkline(const google::protobuf::RepeatedField<double>& values) {
  constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  double least = INFINITY;
  double most = -INFINITY;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  std::string out;
  for (const double value : values) {
    if (!std::isfinite(value)) {
      out += "?";
      continue;
    }
    const double share = most > least ? (value - least) / (most - least) : 0.5;
    out += kBars[std::clamp(static_cast<int>(share * 7.999), 0, 7)];
  }
  return out;
}

absl::Status UnknownKeys(const std::vector<std::string>& keys, const v1::MetricSummaries& summaries,
                         const std::string& job) {
  std::vector<std::string_view> names;
  for (const v1::MetricSummary& summary : summaries.summaries()) names.push_back(summary.name());
  for (const std::string& key : keys) {
    if (std::find(names.begin(), names.end(), key) == names.end()) {
      return Problem(
          absl::StatusCode::kNotFound, "JC1503",
          StrCat("the job has no metric \"", key, "\"", DidYouMean(common::Nearest(key, names))),
          StrCat("jobctl metrics ", job));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Points(Session& session, const Arguments& arguments, Connection& connection) {
  v1::QueryMetricsRequest request;
  request.set_job(arguments.words()[0]);
  const std::vector<std::string> keys = arguments.All("key");
  request.mutable_names()->Assign(keys.begin(), keys.end());
  ASSIGN_OR_RETURN(const int64_t attempt, arguments.Number("attempt", 0, INT32_MAX, -1));
  ASSIGN_OR_RETURN(const int64_t rank, arguments.Number("rank", 0, INT32_MAX, -1));
  request.set_attempt(static_cast<int32_t>(attempt));
  request.set_rank(static_cast<int32_t>(rank));
  Listing listing;
  listing.kind = "MetricPointList";
  listing.columns = {{"name"},
                     {"step", false, true},
                     {"value", false, true},
                     {"rank", false, true},
                     {"attempt", false, true},
                     {"time_ms", true, true}};
  RETURN_IF_ERROR(connection.QueryMetrics(request, [&](const v1::MetricBatch& batch) {
    for (const v1::MetricPoint& point : batch.points()) {
      listing.rows.push_back({Cell(point.name()), Cell(int64_t{point.step()}), Real(point.value()),
                              Cell(int64_t{batch.rank()}), Cell(int64_t{batch.attempt()}),
                              Cell(int64_t{point.time_ms()})});
    }
    return true;
  }));
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  return kExitOk;
}

absl::StatusOr<int> Metrics(Session& session, const Arguments& arguments) {
  const std::string output = arguments.Get("output");
  const std::string& job = arguments.words()[0];
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  const bool points = arguments.Has("points") || arguments.Has("attempt") || output == "csv" ||
                      output == "json" || output == "jsonl";
  if (points) return Points(session, arguments, *connection);
  ASSIGN_OR_RETURN(const v1::MetricSummaries summaries, connection->SummarizeMetrics(job));
  const std::vector<std::string> keys = arguments.All("key");
  RETURN_IF_ERROR(UnknownKeys(keys, summaries, job));
  ASSIGN_OR_RETURN(const int64_t rank, arguments.Number("rank", 0, INT32_MAX, -1));
  Listing listing;
  listing.kind = "MetricList";
  // Who reported matters only when several did.
  const auto& all = summaries.summaries();
  const bool one_rank = std::all_of(all.begin(), all.end(), [&](const v1::MetricSummary& summary) {
    return summary.rank() == all[0].rank();
  });
  listing.columns = {
      {"metric", false, false, true}, {"rank", one_rank, true}, {"points", false, true},
      {"step", false, true},          {"first", false, true},   {"last", false, true},
      {"min", false, true},           {"max", false, true},     {"curve"}};
  for (const v1::MetricSummary& summary : summaries.summaries()) {
    if (!keys.empty() && std::find(keys.begin(), keys.end(), summary.name()) == keys.end())
      continue;
    if (rank >= 0 && summary.rank() != rank) continue;
    listing.rows.push_back({Cell(summary.name()), Cell(int64_t{summary.rank()}),
                            Cell(static_cast<int64_t>(summary.count())),
                            Cell(int64_t{summary.last_step()}), Real(summary.first()),
                            Real(summary.last()), Real(summary.min()), Real(summary.max()),
                            Cell(Sparkline(summary.spark()))});
  }
  if (listing.rows.empty() && session.terminal().out_is_tty) {
    session.Note("no metrics; trainers log them by the SDK, or by TensorBoard event files");
  }
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  if (summaries.dropped() > 0)
    session.Note(StrCat(summaries.dropped(), " points were dropped by the trainers"));
  return kExitOk;
}

}  // namespace

const Command kMetricsCommand = {
    .name = "metrics",
    .summary = "the curves of a job: first, last, min, max",
    .arguments = "JOB",
    .least = 1,
    .most = 1,
    .flags = kFlags,
    .listing = true,
    .completes = "job",
    .examples =
        "jobctl metrics calm-otter-3\ta line per metric\n"
        "jobctl metrics calm-otter-3 --key loss -o csv > loss.csv\tevery point",
    .run = Metrics};

}  // namespace muster::client
