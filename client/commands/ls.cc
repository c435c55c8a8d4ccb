// jobctl ls.
#include <unistd.h>

#include <chrono>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/arguments.h"
#include "client/commands/commands.h"
#include "client/connection.h"
#include "client/errors.h"
#include "client/listing.h"
#include "client/record_text.h"
#include "client/session.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr Flag kFlags[] = {
    {"all", 'a', "", "finished jobs of any age too (default: of the last day)"},
    {"watch", 'w', "", "again after every change"},
    {"mine", 0, "", "only your own"},
    {"state", 0, "A,B", "only these states: queued, running, failed, …"},
};

absl::StatusOr<v1::ListJobsRequest> Request(const Arguments& arguments) {
  v1::ListJobsRequest request;
  request.set_all(arguments.Has("all") || arguments.Has("state"));
  if (arguments.Has("mine")) request.set_owner(StrCat("uid:", getuid()));
  for (const std::string& list : arguments.All("state")) {
    for (const auto part : absl::StrSplit(list, ',', absl::SkipEmpty())) {
      v1::JobState state;
      if (!v1::JobState_Parse(StrCat("JOB_STATE_", absl::AsciiStrToUpper(part)), &state) ||
          state == 0) {
        std::vector<std::string> names;
        for (int i = 1; i <= v1::JobState_MAX; ++i) {
          names.push_back(absl::AsciiStrToLower(StateName(static_cast<v1::JobState>(i))));
        }
        const std::vector<std::string_view> views(names.begin(), names.end());
        return Usage(
            "JC1004",
            StrCat("there is no job state \"", std::string(part), "\"",
                   DidYouMean(common::Nearest(absl::AsciiStrToLower(part), views))),
            "--state queued,starting,running,stopping,restarting,succeeded,failed,cancelled");
      }
      request.add_states(state);
    }
  }
  ASSIGN_OR_RETURN(const int64_t limit, arguments.Number("limit", 0, 1'000'000, 0));
  // A filter or an order must see all rows before the limit counts.
  if (!arguments.Has("filter") && !arguments.Has("sort"))
    request.set_limit(static_cast<uint32_t>(limit));
  if (arguments.Has("filter") || arguments.Has("sort") || arguments.Has("all"))
    request.set_limit(1'000'000);
  return request;
}

std::vector<Cell> Row(const v1::JobSummary& job) {
  const int64_t end = job.finished_ms() > 0 ? job.finished_ms() : WallMs();
  const int64_t ran_ms =
      job.first_running_ms() > 0 ? std::max<int64_t>(0, end - job.first_running_ms()) : -1;
  Cell step;
  if (job.step() > 0 || job.has_loss()) step = Cell(job.step());
  Cell loss;
  if (job.has_loss()) loss = Cell(Value(job.loss()), absl::StrFormat("%.4g", job.loss()));
  Cell checkpoint;
  if (job.checkpoint_step() > 0) checkpoint = Cell(job.checkpoint_step());
  const std::string devices =
      job.device_kind().empty() ? "" : StrCat(job.ranks(), " ", job.device_kind());
  Cell exit_code;
  if (job.finished_ms() > 0) exit_code = Cell(int64_t{job.exit_code()});
  return {Cell(job.name()),
          Cell(Value(int64_t{static_cast<int64_t>(job.id())}), std::to_string(job.id())),
          Cell(StateName(job.state())), Cell(int64_t{job.ranks()}), Cell(devices), step, loss,
          checkpoint, Cell(Value(job.submitted_ms()), Age(job.submitted_ms())),
          ran_ms < 0 ? Cell() : Cell(Value(ran_ms), Took(ran_ms)), Cell(int64_t{job.attempts()}),
          exit_code, Cell(job.owner()),
          // That all went well is said by the state.
          Cell(Value(job.reason()), job.state() == v1::JOB_STATE_SUCCEEDED ? "" : job.reason()),
          Cell(job.command())};
}

Listing JobListing(const v1::ListJobsResponse& response) {
  Listing listing;
  listing.kind = "JobList";
  listing.columns = {{"job", false, false, true},
                     {"id", true, true},
                     {"state"},
                     {"ranks", true, true},
                     {"devices"},
                     {"step", false, true},
                     {"loss", false, true},
                     {"checkpoint", true, true},
                     {"age", false, true},
                     {"ran", false, true},
                     {"attempts", true, true},
                     {"exit", true, true},
                     {"owner", true},
                     {"reason", false, false, true},
                     {"command", true, false, true}};
  for (const v1::JobSummary& job : response.jobs()) listing.rows.push_back(Row(job));
  return listing;
}

absl::StatusOr<int> Watch(Session& session, const Arguments& arguments, Connection& connection) {
  std::string last;
  ASSIGN_OR_RETURN(const v1::ListJobsRequest request, Request(arguments));
  ASSIGN_OR_RETURN(const ListingOptions options,
                   ListingOptions::From(arguments, session.settings().Get("output")));
  while (true) {
    ASSIGN_OR_RETURN(const v1::ListJobsResponse response, connection.ListJobs(request));
    ASSIGN_OR_RETURN(const std::string text,
                     RenderListing(JobListing(response), options, session.terminal()));
    if (text != last) {
      if (session.terminal().out_is_tty) session.Print("\033[H\033[2J");
      session.Print(text);
      fflush(stdout);
      last = text;
    }
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

absl::StatusOr<int> List(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const v1::ListJobsRequest request, Request(arguments));
  ASSIGN_OR_RETURN(Connection * connection, session.ConnectIfAny());
  v1::ListJobsResponse response;
  if (connection != nullptr && arguments.Has("watch"))
    return Watch(session, arguments, *connection);
  if (connection != nullptr) {
    ASSIGN_OR_RETURN(response, connection->ListJobs(request));
  }
  const bool more = response.more();
  const bool none = response.jobs().empty();
  RETURN_IF_ERROR(session.PrintListing(JobListing(response), arguments));
  if (none && session.terminal().out_is_tty) {
    session.Note(arguments.Has("all") ? "no jobs; start one: jobctl run -n 2 -- python train.py"
                                      : "no jobs of the last day; all of them: jobctl ls -a");
  }
  if (more) session.Note("there are more; --limit N shows them");
  return kExitOk;
}

}  // namespace

const Command kLsCommand = {
    .name = "ls",
    .summary = "list jobs",
    .arguments = "",
    .least = 0,
    .most = 0,
    .flags = kFlags,
    .listing = true,
    .examples =
        "jobctl ls\tlive jobs and those that ended within a day\n"
        "jobctl ls -a --state failed --sort -age\tall that failed, oldest first\n"
        "jobctl ls -o json | jq '.items[].job'\tfor programs",
    .run = List};

}  // namespace muster::client
