// jobctl logs.
#include "absl/strings/str_split.h"
#include "client/arguments.h"
#include "client/commands/commands.h"
#include "client/connection.h"
#include "client/errors.h"
#include "client/follow.h"
#include "client/job_parts.h"
#include "client/record_text.h"
#include "client/session.h"
#include "client/signals.h"
#include "common/limits.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/units.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr Flag kLogsFlags[] = {
    {"follow", 'f', "", "keep printing until the job is over; Ctrl-C detaches"},
    {"rank", 0, "0,3-5", "only these ranks"},
    {"node", 0, "A,B", "only ranks on these nodes", {}, "node"},
    {"attempt", 0, "N", "only this attempt; last: the newest (default: all, in order)", {}, "last"},
    {"since", 0, "TIME", "only output newer than this, like 10m"},
    {"tail", 0, "N", "only the last N lines"},
    {"grep", 0, "REGEX", "only lines that match"},
    {"stream", 0, "NAME", "only stdout or stderr", "stdout|stderr"},
    {"timestamps", 0, "", "prefix each line with its time"},
    {"raw", 0, "", "the exact bytes, without a prefix"},
    {"propagate", 0, "", "with -f: return the failing rank's code"},
};

absl::Status AddRanks(const std::string& list, v1::StreamLogsRequest* request) {
  for (const auto part : absl::StrSplit(list, ',', absl::SkipEmpty())) {
    const std::string text(part);
    const size_t dash = text.find('-');
    const absl::StatusOr<int64_t> first = common::ParseInteger(text.substr(0, dash));
    const absl::StatusOr<int64_t> last =
        dash == std::string::npos ? first : common::ParseInteger(text.substr(dash + 1));
    if (!first.ok() || !last.ok() || *first < 0 || *last < *first || *last >= common::kRanksMax) {
      return Usage("JC1004",
                   StrCat("--rank takes numbers and ranges like 0,3-5, not \"", text, "\""),
                   "jobctl logs JOB --rank 0");
    }
    for (int64_t rank = *first; rank <= *last; ++rank)
      request->add_ranks(static_cast<uint32_t>(rank));
  }
  return absl::OkStatus();
}

// The job's record, if it has everything that was asked for.
absl::StatusOr<v1::JobRecord> Checked(Connection& connection,
                                      const v1::StreamLogsRequest& request) {
  ASSIGN_OR_RETURN(const v1::GetJobResponse response, connection.GetJob(request.job()));
  const v1::JobRecord& record = response.record();
  if (request.attempt() >= 0) RETURN_IF_ERROR(CheckAttempt(record, request.attempt()));
  for (const uint32_t rank : request.ranks()) RETURN_IF_ERROR(CheckRank(record, rank));
  if (request.nodes().empty()) return record;
  ASSIGN_OR_RETURN(const v1::ListNodesResponse nodes, connection.ListNodes());
  for (const std::string& node : request.nodes()) RETURN_IF_ERROR(CheckNode(record, node, nodes));
  return record;
}

absl::StatusOr<int> Logs(Session& session, const Arguments& arguments) {
  v1::StreamLogsRequest request;
  request.set_job(arguments.words()[0]);
  request.set_follow(arguments.Has("follow"));
  for (const std::string& list : arguments.All("rank")) RETURN_IF_ERROR(AddRanks(list, &request));
  for (const std::string& list : arguments.All("node")) {
    for (const auto part : absl::StrSplit(list, ',', absl::SkipEmpty()))
      request.add_nodes(std::string(part));
  }
  request.set_attempt(-1);
  if (arguments.Get("attempt") == "last") {
    request.set_attempt(-2);
  } else {
    ASSIGN_OR_RETURN(const int64_t attempt, arguments.Number("attempt", 0, 1'000'000, -1));
    request.set_attempt(static_cast<int32_t>(attempt));
  }
  ASSIGN_OR_RETURN(const int64_t since_ms, arguments.DurationMs("since", 0));
  if (since_ms > 0) request.set_since_ms(WallMs() - since_ms);
  ASSIGN_OR_RETURN(const int64_t tail, arguments.Number("tail", 0, 1'000'000'000, 0));
  request.set_tail_lines(static_cast<uint64_t>(tail));
  if (arguments.Get("stream") == "stdout") request.set_stream(v1::LOG_STREAM_STDOUT);
  if (arguments.Get("stream") == "stderr") request.set_stream(v1::LOG_STREAM_STDERR);
  LogPrinter::Options options;
  options.raw = arguments.Has("raw");
  options.grep = arguments.Get("grep");
  options.timestamps = arguments.Has("timestamps");
  if (options.raw && !options.grep.empty()) {
    return Usage("JC1004", "--raw prints bytes, --grep needs lines", "remove one of them");
  }
  if (request.follow()) WatchSignals();
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::JobRecord record, Checked(*connection, request));
  // @last may be a different job when the connection is reopened.
  request.set_job(std::to_string(record.id()));
  if (request.follow() && !IsOver(record.state())) DetachFrom(session, record.name(), "logs -f");
  return FollowJob(session, request, options, arguments.Has("propagate"));
}

}  // namespace

const Command kLogsCommand = {
    .name = "logs",
    .summary = "show the ranks' output, merged in time order",
    .arguments = "JOB",
    .least = 1,
    .most = 1,
    .flags = kLogsFlags,
    .completes = "job",
    .examples =
        "jobctl logs -f calm-otter-3\tfollow\n"
        "jobctl logs @last --rank 0 --tail 20\tthe end of rank 0 of your newest job\n"
        "jobctl logs calm-otter-3 --rank 1 --stream stdout --raw > out.bin\texactly what the rank "
        "wrote",
    .run = Logs};

}  // namespace muster::client
