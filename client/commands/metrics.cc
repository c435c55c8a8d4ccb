// jobctl metrics.
#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/session/job_parts.h"
#include "client/session/session.h"
#include "client/terminal/listing.h"
#include "client/text/record_text.h"
#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr Flag kMetricsFlags[] = {
    {"key", 0, "NAME", "only this metric; may be repeated"},
    {"rank", 0, "N", "only this rank's metrics"},
    {"attempt", 0, "N", "only this attempt (default: the job's effective history)"},
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
    // Halves: the difference of two doubles may be none.
    const double share = most > least ? (value / 2 - least / 2) / (most / 2 - least / 2) : 0.5;
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
      return common::MakeProblem(absl::StatusCode::kNotFound,
                                 {.code = "JC1503",
                                  .what = StrCat(job, " has no metric \"", key, "\"",
                                                 common::DidYouMean(common::Nearest(key, names))),
                                  .fix = StrCat("jobctl metrics ", job)});
    }
  }
  return absl::OkStatus();
}

// The request, checked against the job.
struct Asked {
  std::string job;  // its name, @last resolved
  std::vector<std::string> keys;
  int64_t rank = -1;
  int64_t attempt = -1;
  std::string searched;  // where event files were looked for
};

std::string SearchedPlaces(const v1::JobSpec& spec) {
  std::string places = "event files in $MUSTER_TENSORBOARD_DIR, in runs/ and lightning_logs/ of ";
  common::StrAppend(&places, spec.workdir().empty() ? "the working directory" : spec.workdir());
  for (const std::string& extra : spec.tensorboard_dirs())
    common::StrAppend(&places, ", in ", extra);
  return places + ", and those that ranks had open for a second";
}

absl::StatusOr<Asked> WhatIsAsked(const Arguments& arguments, Connection& connection) {
  Asked asked;
  asked.keys = arguments.All("key");
  ASSIGN_OR_RETURN(asked.attempt, arguments.Number("attempt", 0, INT32_MAX, -1));
  ASSIGN_OR_RETURN(asked.rank, arguments.Number("rank", 0, INT32_MAX, -1));
  ASSIGN_OR_RETURN(const v1::GetJobResponse job, connection.GetJob(arguments.words()[0]));
  asked.job = job.record().name();
  asked.searched = SearchedPlaces(job.record().spec());
  if (asked.attempt >= 0) RETURN_IF_ERROR(CheckAttempt(job.record(), asked.attempt));
  if (asked.rank >= 0) RETURN_IF_ERROR(CheckRank(job.record(), asked.rank));
  return asked;
}

// Why there is nothing to show; empty if that needs no explanation.
std::string WhyNone(const Asked& asked, const v1::MetricSummaries& summaries) {
  if (summaries.summaries().empty()) {
    return StrCat(
        asked.job,
        " has no metrics; looked at: what trainers report through the SDK or muster.log, ",
        asked.searched);
  }
  std::set<int> ranks;
  for (const v1::MetricSummary& summary : summaries.summaries()) ranks.insert(summary.rank());
  google::protobuf::RepeatedField<uint32_t> did;
  for (const int rank : ranks) did.Add(static_cast<uint32_t>(rank));
  if (asked.rank >= 0 && !ranks.contains(static_cast<int>(asked.rank))) {
    return StrCat("rank ", asked.rank, " logged none; ", did.size() == 1 ? "rank " : "ranks ",
                  Ranges(did), " did");
  }
  return asked.attempt >= 0 ? StrCat("none in attempt ", asked.attempt) : "";
}

absl::StatusOr<int> Points(Session& session, const Arguments& arguments, Connection& connection,
                           const Asked& asked) {
  v1::QueryMetricsRequest request;
  request.set_job(asked.job);
  request.mutable_names()->Assign(asked.keys.begin(), asked.keys.end());
  request.set_attempt(static_cast<int32_t>(asked.attempt));
  request.set_rank(static_cast<int32_t>(asked.rank));
  ASSIGN_OR_RETURN(const ListingOptions options, session.OptionsOfListing(arguments));
  ListingWriter writer(options, session.terminal());
  // Printed in pieces: a job may have millions of points.
  constexpr size_t kPiece = 5'000;
  Listing listing;
  listing.kind = "MetricPointList";
  listing.columns = {{.key = "name"},
                     {.key = "step", .right = true},
                     {.key = "value", .right = true},
                     {.key = "rank", .right = true},
                     {.key = "attempt", .right = true},
                     {.key = "time_ms", .wide = true, .right = true}};
  size_t count = 0;
  absl::Status failed;
  const auto print = [&] {
    const absl::StatusOr<std::string> text = writer.Add(listing);
    failed = text.status();
    if (text.ok()) session.Print(*text);
    listing.rows.clear();
  };
  RETURN_IF_ERROR(connection.QueryMetrics(request, [&](const v1::MetricBatch& batch) {
    for (const v1::MetricPoint& point : batch.points()) {
      listing.rows.push_back({Cell(point.name()), Cell(int64_t{point.step()}), Real(point.value()),
                              Cell(int64_t{batch.rank()}), Cell(int64_t{batch.attempt()}),
                              Cell(int64_t{point.time_ms()})});
    }
    count += static_cast<size_t>(batch.points_size());
    if (listing.rows.size() >= kPiece) print();
    return failed.ok() && !writer.full();
  }));
  if (failed.ok()) print();
  RETURN_IF_ERROR(failed);
  ASSIGN_OR_RETURN(const std::string rest, writer.Finish());
  session.Print(rest);
  if (count > 0) return kExitOk;
  ASSIGN_OR_RETURN(const v1::MetricSummaries summaries, connection.SummarizeMetrics(asked.job));
  RETURN_IF_ERROR(UnknownKeys(asked.keys, summaries, asked.job));
  if (const std::string why = WhyNone(asked, summaries); !why.empty()) session.Note(why);
  return kExitOk;
}

absl::StatusOr<int> Metrics(Session& session, const Arguments& arguments) {
  const std::string output = session.settings().Get("output");
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const Asked asked, WhatIsAsked(arguments, *connection));
  const bool points = arguments.Has("points") || arguments.Has("attempt") || output == "csv" ||
                      output == "json" || output == "jsonl";
  if (points) return Points(session, arguments, *connection, asked);
  ASSIGN_OR_RETURN(const v1::MetricSummaries summaries, connection->SummarizeMetrics(asked.job));
  RETURN_IF_ERROR(UnknownKeys(asked.keys, summaries, asked.job));
  Listing listing;
  listing.kind = "MetricList";
  std::set<uint32_t> ranks, left_out;
  for (const v1::MetricSummary& summary : summaries.summaries()) {
    // Every rank reports its step times; they are much alike.
    const bool more_times = absl::StartsWith(summary.name(), "time/") && summary.rank() > 0;
    if (more_times && asked.keys.empty() && asked.rank < 0) {
      left_out.insert(summary.rank());
      continue;
    }
    if (!asked.keys.empty() &&
        std::find(asked.keys.begin(), asked.keys.end(), summary.name()) == asked.keys.end())
      continue;
    if (asked.rank >= 0 && summary.rank() != asked.rank) continue;
    ranks.insert(summary.rank());
    listing.rows.push_back({Cell(summary.name()), Cell(int64_t{summary.rank()}),
                            Cell(static_cast<int64_t>(summary.count())),
                            Cell(int64_t{summary.last_step()}), Real(summary.first()),
                            Real(summary.last()), Real(summary.min()), Real(summary.max()),
                            Cell(Sparkline(summary.spark()))});
  }
  // The reporting rank is shown only if several are.
  listing.columns = {{.key = "metric", .names = true},
                     {.key = "rank", .wide = ranks.size() < 2, .right = true},
                     {.key = "points", .right = true, .spare = 5},
                     {.key = "step", .right = true},
                     {.key = "first", .right = true, .spare = 3},
                     {.key = "last", .right = true},
                     {.key = "min", .right = true, .spare = 1},
                     {.key = "max", .right = true, .spare = 2},
                     {.key = "curve", .curve = true, .spare = 4}};
  if (listing.rows.empty()) {
    if (const std::string why = WhyNone(asked, summaries); !why.empty()) session.Note(why);
  }
  RETURN_IF_ERROR(session.PrintListing(std::move(listing), arguments));
  if (!left_out.empty()) {
    session.Note(StrCat("step times of ", common::Counted(left_out.size(), "more rank"),
                        ": --rank N, or --key time/step"));
  }
  if (summaries.dropped() > 0) {
    session.Note(StrCat(common::Counted(summaries.dropped(), "point"),
                        summaries.dropped() == 1 ? " was" : " were", " dropped by the trainers"));
  }
  if (summaries.over_quota()) {
    session.Note(
        "newer points are not kept: the job has what the coordinator keeps of one job's metrics "
        "(--job-metrics-quota)");
  }
  if (summaries.damaged_bytes() > 0) {
    session.Note(StrCat(summaries.damaged_bytes(),
                        " bytes of metrics are damaged on the coordinator's disk; their points are "
                        "missing here"));
  }
  return kExitOk;
}

}  // namespace

const Command kMetricsCommand = {
    .name = "metrics",
    .place = 110,
    .summary = "summarize a job's metrics: first, last, min, max",
    .arguments = "JOB",
    .least = 1,
    .most = 1,
    .flags = kMetricsFlags,
    .listing = true,
    .completes = "job",
    .examples =
        "jobctl metrics calm-otter-3\tone line per metric\n"
        "jobctl metrics calm-otter-3 --key loss -o csv > loss.csv\tevery point",
    .run = Metrics};

}  // namespace muster::client
