// jobctl ls.
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/arguments.h"
#include "client/assessment_text.h"
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

constexpr Flag kLsFlags[] = {
    {"all", 'a', "", "include finished jobs of any age (default: the last day's)"},
    {"watch", 'w', "", "keep printing: a screenful every second; in a pipe, after every change"},
    {"mine", 0, "", "only your own jobs"},
    {"wasted", 0, "", "only jobs with findings: the device time they waste, and why"},
    {"state", 0, "A,B", "only these states: queued, running, failed, …", {}, "state"},
};

absl::StatusOr<v1::ListJobsRequest> Request(const Arguments& arguments) {
  v1::ListJobsRequest request;
  request.set_all(arguments.Has("all") || arguments.Has("state"));
  request.set_assess(arguments.Has("wasted"));
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
  return request;
}

std::vector<Cell> JobRow(const v1::JobSummary& job) {
  const int64_t end = job.finished_ms() > 0 ? job.finished_ms() : WallMs();
  const int64_t ran_ms =
      job.first_running_ms() > 0 ? std::max<int64_t>(0, end - job.first_running_ms()) : -1;
  Cell step;
  if (job.step() > 0 || job.has_loss()) step = Cell(job.step());
  Cell loss;
  if (job.has_loss()) loss = Cell(Value(job.loss()), absl::StrFormat("%.4g", job.loss()));
  Cell eta;
  if (job.has_eta_ms()) eta = Cell(Value(job.eta_ms()), EtaText(job.eta_ms()));
  Cell checkpoint;
  if (job.checkpoint_step() > 0) checkpoint = Cell(job.checkpoint_step());
  const std::string devices =
      job.device_kind().empty() ? "" : StrCat(job.ranks(), " ", job.device_kind());
  Cell exit_code;
  if (job.finished_ms() > 0) exit_code = Cell(int64_t{job.exit_code()});
  return {Cell(job.name()),
          Cell(Value(int64_t{static_cast<int64_t>(job.id())}), std::to_string(job.id())),
          Cell(StateName(job.state())), Cell(int64_t{job.ranks()}), Cell(devices), step, loss, eta,
          checkpoint, Cell(Value(job.submitted_ms()), Age(job.submitted_ms())),
          ran_ms < 0 ? Cell() : Cell(Value(ran_ms), Took(ran_ms)), Cell(int64_t{job.attempts()}),
          exit_code, Cell(job.owner()),
          // For a job that succeeded, the state says it all.
          Cell(Value(job.reason()), job.state() == v1::JOB_STATE_SUCCEEDED ? "" : job.reason()),
          Cell(job.command())};
}

Listing JobListing(const v1::ListJobsResponse& response) {
  Listing listing;
  listing.kind = "JobList";
  listing.columns = {{.key = "job", .shrink = true},
                     {.key = "id", .wide = true, .right = true},
                     {.key = "state"},
                     {.key = "ranks", .wide = true, .right = true},
                     {.key = "devices"},
                     {.key = "step", .right = true},
                     {.key = "loss", .right = true},
                     {.key = "eta", .right = true, .value_name = "eta_ms"},
                     {.key = "checkpoint", .wide = true, .right = true},
                     {.key = "age", .right = true, .value_name = "submitted_ms", .since = true},
                     {.key = "ran", .right = true, .value_name = "ran_ms"},
                     {.key = "attempts", .wide = true, .right = true},
                     {.key = "exit", .wide = true, .right = true},
                     {.key = "owner", .wide = true},
                     {.key = "reason", .shrink = true},
                     {.key = "command", .wide = true, .shrink = true}};
  for (const v1::JobSummary& job : response.jobs()) listing.rows.push_back(JobRow(job));
  return listing;
}

// What `--wasted` lists instead: the worst finding of each job that has one.
Listing WastedListing(const v1::ListJobsResponse& response) {
  Listing listing;
  listing.kind = "WastedList";
  listing.columns = {{.key = "job", .shrink = true},
                     {.key = "state"},
                     {.key = "devices"},
                     {.key = "wasted", .right = true, .value_name = "wasted_device_us"},
                     {.key = "code", .wide = true},
                     {.key = "finding", .shrink = true},
                     {.key = "cause", .wide = true, .shrink = true},
                     {.key = "fix", .wide = true, .shrink = true}};
  for (const v1::JobSummary& job : response.jobs()) {
    if (!job.has_finding()) continue;
    const v1::Finding& finding = job.finding();
    const double hours = static_cast<double>(job.wasted_device_us()) / 3.6e9;
    listing.rows.push_back(
        {Cell(job.name()), Cell(StateName(job.state())),
         Cell(StrCat(job.ranks(), " ", job.device_kind())),
         Cell(Value(int64_t{job.wasted_device_us()}),
              hours < 0.1 ? DeviceTime(job.wasted_device_us()) : absl::StrFormat("%.1f h", hours)),
         Cell(finding.code()), Cell(finding.sentence()), Cell(finding.cause()),
         Cell(finding.fix())});
  }
  return listing;
}

// One page, and its text.
using OnPage = std::function<void(const v1::ListJobsResponse& page, const std::string& text)>;

// Reads page after page, newest jobs first, until there are no more or the limit is reached; each
// page is freed before the next is requested. `connection` may be null: no jobs. Returns the number
// of rows.
absl::StatusOr<size_t> ReadPages(Connection* connection, v1::ListJobsRequest request,
                                 const ListingOptions& options, const Terminal& terminal,
                                 const OnPage& on_page) {
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
    on_page(page, text);
    if (!page.jobs().empty()) request.set_before_id(page.jobs().rbegin()->id());
  } while (page.more() && !page.jobs().empty() && !writer.full());
  ASSIGN_OR_RETURN(const std::string text, writer.Finish());
  on_page({}, text);
  return writer.written();
}

// What fits on a screen, and whether there are more rows; the last line stays empty for the cursor.
std::string FirstScreen(const std::string& text, const Terminal& terminal) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  const size_t room = terminal.height - 1;
  const bool more = lines.size() > room;
  if (more) lines.resize(room - 1);
  std::string out;
  for (const std::string& line : lines) {
    // Only -o wide has overlong lines, and there without color.
    common::StrAppend(&out, terminal.color_out ? line : Shorten(line, terminal.width), "\n");
  }
  return more ? StrCat(out, "… there are more: jobctl ls\n") : out;
}

// On a terminal, one screen, redrawn every second. In a pipe, the whole list, again whenever
// something in it changed; ages alone do not count as a change.
absl::StatusOr<int> Watch(Session& session, const Arguments& arguments, Connection& connection) {
  ASSIGN_OR_RETURN(const v1::ListJobsRequest request, Request(arguments));
  ASSIGN_OR_RETURN(ListingOptions options, session.OptionsOfListing(arguments));
  const int64_t limit = options.limit;
  // Differs from any serialized list.
  for (std::string last = "none yet";; std::this_thread::sleep_for(std::chrono::seconds(1))) {
    // The window may have been resized.
    Terminal terminal = DetectTerminal(session.settings().Get("color"));
    const bool wide = options.output == "wide";
    const bool screen =
        terminal.out_is_tty && terminal.height > 0 && (wide || options.output == "table");
    terminal.color_out = terminal.color_out && !wide;
    // Reads no more than can be displayed.
    const int64_t rows = static_cast<int64_t>(terminal.height);
    options.limit = screen && (limit == 0 || limit > rows) ? rows : limit;
    std::string text;
    std::string values;
    RETURN_IF_ERROR(ReadPages(&connection, request, options, terminal,
                              [&](const v1::ListJobsResponse& page, const std::string& piece) {
                                text += piece;
                                values += page.SerializeAsString();
                              })
                        .status());
    if (screen) {
      session.Print(StrCat("\033[H\033[2J", FirstScreen(text, terminal)));
    } else if (values != last) {
      session.Print(text);
    }
    fflush(stdout);
    last = values;
  }
}

absl::StatusOr<int> ListJobs(Session& session, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const v1::ListJobsRequest request, Request(arguments));
  ASSIGN_OR_RETURN(const ListingOptions options, session.OptionsOfListing(arguments));
  ASSIGN_OR_RETURN(Connection * connection, session.ConnectIfAny());
  if (connection != nullptr && arguments.Has("watch"))
    return Watch(session, arguments, *connection);
  ASSIGN_OR_RETURN(const size_t rows,
                   ReadPages(connection, request, options, session.terminal(),
                             [&](const v1::ListJobsResponse&, const std::string& text) {
                               session.Print(text);
                             }));
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
    .summary = "list jobs",
    .arguments = "",
    .least = 0,
    .most = 0,
    .flags = kLsFlags,
    .listing = true,
    .examples =
        "jobctl ls\tlive jobs and those that finished within a day\n"
        "jobctl ls -a --state failed --sort -age\tall failed jobs, oldest first\n"
        "jobctl ls --wasted\twhich jobs waste devices, and why\n"
        "jobctl ls -o json | jq '.items[].job'\tfor programs",
    .run = ListJobs};

}  // namespace muster::client
