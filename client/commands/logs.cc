// jobctl logs.
#include <algorithm>
#include <string>

#include "absl/strings/str_split.h"
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/follow/first_error.h"
#include "client/follow/follow.h"
#include "client/session/job_parts.h"
#include "client/session/session.h"
#include "client/terminal/signals.h"
#include "client/text/code_text.h"
#include "client/text/record_text.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/lines/line_matcher.h"
#include "common/text/strings.h"
#include "common/text/units.h"
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
    {"grep", 0, "REGEX", "only lines that match this RE2 pattern; the coordinator searches"},
    {"ignore-case", 'i', "", "with --grep: ignore case"},
    {"invert-match", 0, "", "with --grep: only lines that do not match"},
    {"after", 'A', "N", "with each match, the next N lines of its rank"},
    {"before", 'B', "N", "with each match, the previous N lines of its rank"},
    {"around", 'C', "N", "-A N -B N"},
    {"count", 0, "", "only the number of matching lines, per rank and in total"},
    {"level", 0, "LEVEL",
     "only lines of this level or above; a line without one counts as the line that "
     "it continues, or as info",
     "debug|info|warn|error|fatal"},
    {"first-error", 0, "",
     "the first line of all ranks that reads as an error, with 3 lines of context"},
    {"setup", 0, "",
     "what the job's setup printed on each node, its last 8 KiB, instead of the ranks' output"},
    {"stream", 0, "NAME", "only stdout or stderr", "stdout|stderr"},
    {"timestamps", 0, "", "prefix each line with its time"},
    {"raw", 0, "", "the exact bytes, without a prefix"},
    {"output", 'o', "FORMAT", "jsonl: a JSON object per line, with attempt, rank, node and time",
     "jsonl"},
    {"no-fold", 0, "",
     "print each line separately; otherwise a terminal shows equal lines that several ranks write "
     "within 1s once, as [16 ranks], [0-3,7] or [9 of 16 ranks], which delays lines by up to 250ms "
     "and may reorder lines of different ranks"},
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

// The job's record, if the job has the attempt, ranks and nodes that were asked for.
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

absl::StatusOr<common::LineQuery> QueryOf(const Arguments& arguments) {
  common::LineQuery query;
  query.grep = arguments.Get("grep");
  query.ignore_case = arguments.Has("ignore-case");
  query.invert = arguments.Has("invert-match");
  query.least_level = common::LevelNamed(arguments.Get("level"));
  query.errors = arguments.Has("first-error");
  query.count_only = arguments.Has("count");
  const int64_t most = common::kContextLinesMax;
  ASSIGN_OR_RETURN(const int64_t around, arguments.Number("around", 0, most, 0));
  ASSIGN_OR_RETURN(const int64_t before, arguments.Number("before", 0, most, around));
  ASSIGN_OR_RETURN(const int64_t after, arguments.Number("after", 0, most, around));
  query.lines_before = static_cast<uint32_t>(before);
  query.lines_after = static_cast<uint32_t>(after);
  for (const char* flag : {"ignore-case", "invert-match"}) {
    if (arguments.Has(flag) && query.grep.empty()) {
      return Usage("JC1004", StrCat("--", flag, " needs --grep"), "add --grep REGEX");
    }
  }
  const bool has_context = query.lines_before + query.lines_after > 0;
  if ((query.count_only || has_context) && !query.SelectsLines()) {
    return Usage("JC1004",
                 StrCat(query.count_only ? "--count needs" : "-A, -B and -C need",
                        " something to search for"),
                 "add --grep REGEX or --level LEVEL");
  }
  if (query.errors && (query.count_only || !query.grep.empty())) {
    return Usage("JC1004", "--first-error shows one line, so it excludes --grep and --count",
                 "remove one of them");
  }
  if (query.errors) query.lines_before = query.lines_after = FirstError::kContextLines;
  return query;
}

v1::LineFilter FilterOf(const common::LineQuery& query) {
  v1::LineFilter filter;
  filter.set_grep(query.grep);
  filter.set_ignore_case(query.ignore_case);
  filter.set_invert(query.invert);
  if (query.least_level) filter.set_least_level(static_cast<v1::LogLevel>(*query.least_level));
  filter.set_errors(query.errors);
  filter.set_lines_before(query.lines_before);
  filter.set_lines_after(query.lines_after);
  filter.set_count_only(query.count_only);
  return filter;
}

// The newest attempt, or the one that was asked for; null: there is none.
const v1::Attempt* AttemptToShow(const v1::JobRecord& record, int64_t number) {
  const v1::Attempt* found = nullptr;
  for (const v1::Attempt& attempt : record.attempts()) {
    if (number < 0 || attempt.number() == number) found = &attempt;
  }
  return found;
}

absl::StatusOr<int> ShowSetup(Session& session, const v1::StreamLogsRequest& request) {
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::JobRecord record, Checked(*connection, request));
  const v1::Attempt* attempt = AttemptToShow(record, request.attempt());
  bool any = false;
  for (int i = 0; attempt != nullptr && i < attempt->parts_size(); ++i) {
    const v1::NodePart& part = attempt->parts(i);
    const auto& nodes = request.nodes();
    if (!nodes.empty() && std::find(nodes.begin(), nodes.end(), part.node()) == nodes.end())
      continue;
    if (!part.has_preparation() || record.spec().setup().empty()) continue;
    any = true;
    session.Print(SetupOutputText(part));
  }
  if (any) return kExitOk;
  session.Note(record.spec().setup().empty() ? "the job has no setup"
                                             : "no node has reported its setup (yet)");
  return kExitOk;
}

// --setup shows a few KiB of each node as a whole.
absl::Status CheckSetupFlags(const Arguments& arguments) {
  for (const char* flag : {"follow", "rank", "since", "tail", "grep", "count", "level",
                           "first-error", "stream", "timestamps", "raw", "output"}) {
    if (arguments.Has(flag)) {
      return Usage("JC1004",
                   StrCat("--setup shows all of a setup's output; --", flag,
                          " does not go "
                          "with it"),
                   "remove one of them");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Logs(Session& session, const Arguments& arguments) {
  if (arguments.Has("setup")) RETURN_IF_ERROR(CheckSetupFlags(arguments));
  v1::StreamLogsRequest request;
  request.set_job(arguments.words()[0]);
  request.set_follow(arguments.Has("follow"));
  for (const std::string& list : arguments.All("rank")) RETURN_IF_ERROR(AddRanks(list, &request));
  for (const std::string& node : arguments.Listed("node")) request.add_nodes(node);
  request.set_attempt(-1);
  if (arguments.Get("attempt") == "last") {
    request.set_attempt(-2);
  } else {
    ASSIGN_OR_RETURN(const int64_t attempt, arguments.Number("attempt", 0, 1'000'000, -1));
    request.set_attempt(static_cast<int32_t>(attempt));
  }
  if (arguments.Has("setup")) return ShowSetup(session, request);
  ASSIGN_OR_RETURN(const int64_t since_ms, arguments.DurationMs("since", 0));
  if (since_ms > 0) request.set_since_ms(WallMs() - since_ms);
  ASSIGN_OR_RETURN(const int64_t tail, arguments.Number("tail", 0, 1'000'000'000, 0));
  request.set_tail_lines(static_cast<uint64_t>(tail));
  if (arguments.Get("stream") == "stdout") request.set_stream(v1::LOG_STREAM_STDOUT);
  if (arguments.Get("stream") == "stderr") request.set_stream(v1::LOG_STREAM_STDERR);
  LogPrinter::Options options;
  options.raw = arguments.Has("raw");
  options.timestamps = arguments.Has("timestamps");
  options.first_error = arguments.Has("first-error");
  options.json_lines = arguments.Has("output");
  ASSIGN_OR_RETURN(options.query, QueryOf(arguments));
  if (options.query.SelectsLines()) *request.mutable_filter() = FilterOf(options.query);
  if (options.raw && options.query.SelectsLines()) {
    return Usage("JC1004", "--raw prints bytes; --grep, --level and --first-error need lines",
                 "remove one of them");
  }
  if (options.json_lines && (options.raw || options.first_error || arguments.Has("count"))) {
    return Usage("JC1004", "-o jsonl prints all lines; --raw, --first-error and --count do not",
                 "remove one of them");
  }
  // The coordinator checks this too; here it fails before any request.
  RETURN_IF_ERROR(common::LineMatcher::Make(options.query).status());
  if (request.follow()) WatchSignals();
  ASSIGN_OR_RETURN(Connection * connection, session.Connect());
  ASSIGN_OR_RETURN(const v1::JobRecord record, Checked(*connection, request));
  if (!options.raw && !options.json_lines && !arguments.Has("no-fold")) {
    options.fold_ranks = std::max<size_t>(1, RanksShown(record, request));
  }
  // @last may be a different job when the connection is reopened.
  request.set_job(std::to_string(record.id()));
  if (request.follow() && !IsOver(record.state())) DetachFrom(session, record.name(), "logs -f");
  return FollowJob(session, request, options, arguments.Has("propagate"));
}

}  // namespace

const Command kLogsCommand = {
    .name = "logs",
    .place = 90,
    .summary = "show the ranks' output, merged in time order",
    .arguments = "JOB",
    .least = 1,
    .most = 1,
    .flags = kLogsFlags,
    .completes = "job",
    .examples =
        "jobctl logs -f calm-otter-3\tfollow\n"
        "jobctl logs @last --rank 0 --tail 20\tthe end of rank 0 of your newest job\n"
        "jobctl logs @last --grep 'loss (nan|inf)' -C 2\tsearch all ranks, with 2 lines of "
        "context\n"
        "jobctl logs @last --first-error\twhat went wrong first, and where\n"
        "jobctl logs @last --setup\twhat `setup` printed on each node\n"
        "jobctl logs calm-otter-3 --rank 1 --stream stdout --raw > out.bin\texactly what the rank "
        "wrote",
    .notes =
        "A progress bar, which redraws its line with carriage returns, is one line that\n"
        "changes on a terminal. In a file or a pipe it is its last state, with -f one\n"
        "state a minute. --raw and -o jsonl have every byte, as docker logs does.",
    .run = Logs};

}  // namespace muster::client
