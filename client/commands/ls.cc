// jobctl ls.
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "absl/strings/ascii.h"
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/follow/job_watch.h"
#include "client/session/session.h"
#include "client/terminal/listing.h"
#include "client/terminal/signals.h"
#include "client/text/job_list.h"
#include "client/text/record_text.h"
#include "common/base/status.h"
#include "common/job/labels.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr Flag kLsFlags[] = {
    {"all", 'a', "", "include finished jobs of any age (default: the last day's)"},
    {"watch", 'w', "",
     "on a terminal a live screen (h: its keys); in a pipe the list, again after every change"},
    {"label", 'l', "K=V",
     "only jobs with this label; also K!=V, K, !K; several: all must hold (commas, or repeated)"},
    {"project", 0, "NAME", "only jobs of this project"},
    {"mine", 0, "", "only your own jobs"},
    {"owner", 0, "USER", "only this user's jobs: alice, uid:1000"},
    {"wasted", 0, "", "only jobs with findings: the device time they waste, and why"},
    {"state", 0, "A,B", "only these states: queued, running, failed, …", {}, "state"},
};

absl::StatusOr<v1::ListJobsRequest> Request(const Arguments& arguments) {
  v1::ListJobsRequest request;
  request.set_all(arguments.Has("all") || arguments.Has("state"));
  request.set_assess(arguments.Has("wasted"));
  for (const std::string& label : arguments.Listed("label")) request.add_labels(label);
  // The coordinator checks this, too; here it is checked before anything is sent.
  RETURN_IF_ERROR(
      job::ParseLabelTerms({request.labels().begin(), request.labels().end()}).status());
  request.set_project(arguments.Get("project"));
  request.set_owner(arguments.Get("owner"));
  if (arguments.Has("mine")) {
    // The coordinator knows who asks. One of version 0.2.0 reads the owner instead, and knows only local
    // accounts.
    request.set_mine(true);
    request.set_owner(StrCat("uid:", getuid()));
  }
  for (const std::string& word : arguments.Listed("state")) {
    v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
    if (!v1::JobState_Parse(StrCat("JOB_STATE_", absl::AsciiStrToUpper(word)), &state) ||
        state == 0) {
      std::vector<std::string> names;
      for (int i = 1; i <= v1::JobState_MAX; ++i) {
        names.push_back(absl::AsciiStrToLower(StateName(static_cast<v1::JobState>(i))));
      }
      const std::vector<std::string_view> views(names.begin(), names.end());
      return Usage(
          "JC1004",
          StrCat("there is no job state \"", word, "\"",
                 common::DidYouMean(common::Nearest(absl::AsciiStrToLower(word), views))),
          "--state queued,starting,running,stopping,restarting,succeeded,failed,cancelled");
    }
    request.add_states(state);
  }
  return request;
}

using OnText = std::function<void(const std::string& text)>;

// Reads page after page, newest jobs first, until there are no more or the limit is reached; each
// page is freed before the next is requested. `connection` may be null: no jobs. Returns the number
// of rows.
absl::StatusOr<size_t> ReadPages(Connection* connection, v1::ListJobsRequest request,
                                 const ListingOptions& options, const Terminal& terminal,
                                 const OnText& on_text) {
  constexpr int64_t kPage = 2'000;
  ListingWriter writer(options, terminal);
  v1::ListJobsResponse page;
  do {
    // A filter or a sort order must see all rows before the limit applies.
    const bool cut = options.limit > 0 && options.filters.empty() && options.sort.empty();
    const int64_t left = options.limit - static_cast<int64_t>(writer.written());
    request.set_limit(static_cast<uint32_t>(cut ? std::min(kPage, left) : kPage));
    if (connection != nullptr) {
      ASSIGN_OR_RETURN(page, connection->ListJobs(request));
    }
    ASSIGN_OR_RETURN(const std::string text,
                     writer.Add(request.assess() ? WastedListing(page) : JobListing(page)));
    on_text(text);
    if (!page.jobs().empty()) request.set_before_id(page.jobs().rbegin()->id());
  } while (page.more() && !page.jobs().empty() && !writer.full());
  ASSIGN_OR_RETURN(const std::string text, writer.Finish());
  on_text(text);
  return writer.written();
}

absl::StatusOr<int> ListJobs(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const v1::ListJobsRequest request, Request(arguments));
  ASSIGN_OR_RETURN(const ListingOptions options, session.OptionsOfListing(arguments));
  if (arguments.Has("watch")) WatchSignals();  // before the connection's threads start
  ASSIGN_OR_RETURN(Connection * connection, session.ConnectIfAny());
  if (connection != nullptr && arguments.Has("watch"))
    return WatchJobs(session, *connection, request, options);
  ASSIGN_OR_RETURN(const size_t rows,
                   ReadPages(connection, request, options, session.terminal(),
                             [&session](const std::string& text) { session.Print(text); }));
  if (rows == 0 && session.terminal().out_is_tty) {
    session.Note(arguments.Has("wasted") ? "no job has a finding"
                 : arguments.Has("all")  ? "no jobs; start one: jobctl run -n 2 -- python train.py"
                                         : "no jobs in the last day; for all jobs: jobctl ls -a");
  }
  return kExitOk;
}

}  // namespace

const Command kLsCommand = {
    .name = "ls",
    .place = 60,
    .summary = "list jobs",
    .arguments = "",
    .least = 0,
    .most = 0,
    .flags = kLsFlags,
    .listing = true,
    .examples =
        "jobctl ls\tlive jobs and those that finished within a day\n"
        "jobctl ls -a --state failed --sort -age\tall failed jobs, oldest first\n"
        "jobctl ls -l team=vision,sweep!=7\tby label\n"
        "jobctl cancel $(jobctl ls -l sweep=7 --state queued,running -o name)\tin one request\n"
        "jobctl ls --wasted\twhich jobs waste devices, and why\n"
        "jobctl ls -o json | jq '.items[].job'\tfor programs",
    .run = ListJobs};

}  // namespace muster::client
