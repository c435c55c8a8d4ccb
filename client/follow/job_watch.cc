#include "client/follow/job_watch.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include "client/command_line/errors.h"
#include "client/connection/connection.h"
#include "client/session/session.h"
#include "client/terminal/live_screen.h"
#include "client/terminal/row_window.h"
#include "client/terminal/screen_frame.h"
#include "client/text/job_list.h"
#include "client/text/record_text.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr int kJobsEveryMs = 1'000;
// Older jobs are not shown, because all shown jobs are read every second.
// limit: jobctl: jobs in `ls -w`; older ones are not shown
constexpr size_t kWatchedJobsMax = 10'000;
constexpr size_t kAssessedJobsMax = 1'000;

constexpr std::string_view kWatchHelp =
    "q      quit\n"
    "space  pause, continue\n"
    "↑ ↓ PgUp PgDn Home End (or k j b f g G)  scroll\n"
    "Ctrl-L draw everything again\n"
    "h      this text\n\n"
    "The rows on the screen stay where they are while jobs come and go above them;\n"
    "at the top, new jobs appear. For a job: jobctl show JOB, jobctl top JOB\n";

// The list at one moment, as lines for a terminal.
struct JobLines {
  std::string header;
  std::vector<std::string> rows;
  std::vector<std::string> names;  // of the rows
  bool has_more = false;
  bool can_grow = false;  // by reading more jobs
};

// Reads the newest jobs, until there are `wanted` or no more. A filter or an order needs all of
// them.
absl::StatusOr<Listing> NewestJobs(Connection& connection, v1::ListJobsRequest request,
                                   size_t wanted, bool* has_more) {
  Listing all = request.assess() ? WastedListing({}) : JobListing({});
  size_t jobs = 0;
  *has_more = true;
  while (*has_more && jobs < wanted) {
    request.set_limit(static_cast<uint32_t>(wanted - jobs));
    ASSIGN_OR_RETURN(const v1::ListJobsResponse page, connection.ListJobs(request));
    *has_more = page.more() && !page.jobs().empty();
    if (page.jobs().empty()) break;
    request.set_before_id(page.jobs().rbegin()->id());
    jobs += static_cast<size_t>(page.jobs_size());
    Listing rows = request.assess() ? WastedListing(page) : JobListing(page);
    std::move(rows.rows.begin(), rows.rows.end(), std::back_inserter(all.rows));
  }
  return all;
}

absl::StatusOr<JobLines> LookAtJobs(Connection& connection, const v1::ListJobsRequest& request,
                                    const ListingOptions& options, Terminal terminal,
                                    size_t wanted) {
  // Findings, filters and orders leave out rows, or move them.
  const bool all = request.assess() || !options.filters.empty() || !options.sort.empty();
  const size_t most = request.assess() ? kAssessedJobsMax : kWatchedJobsMax;
  wanted = all ? most : std::min(wanted, most);
  if (!all && options.limit > 0) wanted = std::min(wanted, static_cast<size_t>(options.limit));
  JobLines lines;
  ASSIGN_OR_RETURN(const Listing jobs, NewestJobs(connection, request, wanted, &lines.has_more));
  lines.can_grow = lines.has_more && wanted < most;
  ListingOptions names = options;
  names.output = "name";
  ASSIGN_OR_RETURN(const std::string name_lines, RenderListing(jobs, names, terminal));
  lines.names = FrameLines(name_lines);
  terminal.out_is_tty = true;
  terminal.color_out = false;  // cut by width, so without escape sequences
  ASSIGN_OR_RETURN(const std::string table, RenderListing(jobs, options, terminal));
  for (std::string& line : FrameLines(table))
    lines.rows.push_back(Shorten(Filtered(line), terminal.width));
  if (options.headers && !lines.rows.empty()) {
    lines.header = std::move(lines.rows.front());
    lines.rows.erase(lines.rows.begin());
  }
  // Rows that the user's --limit leaves out are not missing.
  if (options.limit > 0 && lines.rows.size() >= static_cast<size_t>(options.limit)) {
    lines.has_more = lines.can_grow = false;
  }
  return lines;
}

class JobScreen {
 public:
  JobScreen(Connection& connection, const v1::ListJobsRequest& request,
            const ListingOptions& options)
      : connection_(connection), request_(request), options_(options) {}

  // A coordinator that restarts leaves the last rows on the screen.
  absl::Status Look(const Terminal& terminal) {
    const size_t wanted = std::max(window_.Needed(), terminal.height);
    absl::StatusOr<JobLines> lines = LookAtJobs(connection_, request_, options_, terminal, wanted);
    if (absl::IsUnavailable(lines.status()) && has_looked_) {
      problem_ = Sentence(lines.status());
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(lines.status());
    has_looked_ = true;
    problem_.clear();
    lines_ = *std::move(lines);
    return absl::OkStatus();
  }

  std::string Frame(const Terminal& terminal, bool has_keys);
  // True if a key asked for more rows than are known.
  bool NeedsMore() const { return lines_.can_grow && window_.Needed() > lines_.rows.size(); }
  // False: quit.
  bool OnKey(const LiveScreen::Event& event);
  bool is_paused() const { return is_paused_; }

 private:
  Connection& connection_;
  const v1::ListJobsRequest& request_;
  const ListingOptions& options_;
  JobLines lines_;
  RowWindow window_;
  std::string problem_;  // why the rows are out of date
  bool has_looked_ = false;
  bool is_paused_ = false;
  bool shows_help_ = false;
};

std::string JobScreen::Frame(const Terminal& terminal, bool has_keys) {
  const std::string_view bold = terminal.color_out ? "\033[1m" : "";
  const std::string_view reset = terminal.color_out ? "\033[0m" : "";
  // Besides rows: the column names and the last line.
  const size_t others = options_.headers ? 2 : 1;
  window_.Follow(lines_.names, terminal.height > others ? terminal.height - others : 1);
  if (!NeedsMore()) window_.KnowsAll();
  if (shows_help_) return std::string(kWatchHelp);
  std::string text;
  if (options_.headers) text = StrCat(bold, lines_.header, reset, "\n");
  for (size_t i = window_.first(); i < window_.last() && i < lines_.rows.size(); ++i)
    common::StrAppend(&text, lines_.rows[i], "\n");
  if (lines_.rows.empty()) common::StrAppend(&text, "no jobs\n");
  const std::string keys = has_keys ? "q quit  space pause  h help" : "";
  const std::string last =
      StrCat(is_paused_ ? "PAUSED  " : "", window_.PlaceText(lines_.rows.size(), lines_.has_more),
             problem_.empty() ? keys : common::Printable(problem_));
  return text + Shorten(last, terminal.width);
}

bool JobScreen::OnKey(const LiveScreen::Event& event) {
  if (window_.OnKey(event) || event.key != LiveScreen::Key::kCharacter) return true;
  if (event.character == ' ') is_paused_ = !is_paused_;
  if (event.character == 'h' || event.character == '?') shows_help_ = !shows_help_;
  return event.character != 'q';
}

Terminal TerminalNow(const Session& session) {
  // The window may have been resized.
  return DetectTerminal(session.settings().Get("color"));
}

absl::StatusOr<int> WatchWithKeys(const Session& session, JobScreen& jobs) {
  RETURN_IF_ERROR(jobs.Look(TerminalNow(session)));  // errors are for the ordinary screen
  LiveScreen screen;
  RETURN_IF_ERROR(screen.Open());
  int64_t next_ms = WallMs() + kJobsEveryMs;
  while (true) {
    screen.Draw(jobs.Frame(TerminalNow(session), true));
    const LiveScreen::Event event =
        screen.Next(static_cast<int>(std::clamp<int64_t>(next_ms - WallMs(), 0, kJobsEveryMs)));
    if (event.key == LiveScreen::Key::kSignal) return 128 + event.signal;
    if (!jobs.OnKey(event)) return kExitOk;
    // A clock that was set back does not stop the view.
    const bool is_due = WallMs() >= next_ms || WallMs() <= next_ms - 2 * kJobsEveryMs;
    if (is_due) next_ms = WallMs() + kJobsEveryMs;
    if (jobs.NeedsMore() || (is_due && !jobs.is_paused())) {
      RETURN_IF_ERROR(jobs.Look(TerminalNow(session)));
    }
  }
}

// Input is not a terminal, so no key can be pressed.
absl::StatusOr<int> WatchWithoutKeys(const Session& session, JobScreen& jobs) {
  std::vector<std::string> shown;
  size_t width = 0, height = 0;
  while (true) {
    const Terminal terminal = TerminalNow(session);
    if (terminal.width != width || terminal.height != height) shown.clear();
    width = terminal.width;
    height = terminal.height;
    RETURN_IF_ERROR(jobs.Look(terminal));
    std::vector<std::string> lines = FrameLines(jobs.Frame(terminal, false));
    // Not Print, which would not let the cursor be moved; the lines themselves have been filtered.
    fputs(FrameUpdate(shown, lines).c_str(), stdout);
    fflush(stdout);
    shown = std::move(lines);
    std::this_thread::sleep_for(std::chrono::milliseconds(kJobsEveryMs));
  }
}

// Equal pages have equal bytes: a map's order would vary otherwise.
std::string BytesOf(const v1::ListJobsResponse& page) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    page.SerializeToCodedStream(&coded);
  }
  return bytes;
}

// A pipe, or values for programs.
absl::StatusOr<int> WatchChanges(Session& session, Connection& connection,
                                 const v1::ListJobsRequest& request,
                                 const ListingOptions& options) {
  std::optional<std::string> last;
  while (true) {
    ListingWriter writer(options, session.terminal());
    v1::ListJobsRequest next = request;
    v1::ListJobsResponse page;
    std::string text, values;
    do {
      ASSIGN_OR_RETURN(page, connection.ListJobs(next));
      ASSIGN_OR_RETURN(const std::string piece,
                       writer.Add(request.assess() ? WastedListing(page) : JobListing(page)));
      text += piece;
      values += BytesOf(page);
      if (!page.jobs().empty()) next.set_before_id(page.jobs().rbegin()->id());
    } while (page.more() && !page.jobs().empty() && !writer.full());
    ASSIGN_OR_RETURN(const std::string rest, writer.Finish());
    if (values != last) session.Print(text + rest);
    fflush(stdout);
    last = std::move(values);
    std::this_thread::sleep_for(std::chrono::milliseconds(kJobsEveryMs));
  }
}

}  // namespace

absl::StatusOr<int> WatchJobs(Session& session, Connection& connection,
                              const v1::ListJobsRequest& request, const ListingOptions& options) {
  const Terminal& terminal = session.terminal();
  const bool is_table = options.output == "table" || options.output == "wide";
  if (!terminal.out_is_tty || terminal.height == 0 || !is_table) {
    return WatchChanges(session, connection, request, options);
  }
  JobScreen jobs(connection, request, options);
  return isatty(STDIN_FILENO) == 1 ? WatchWithKeys(session, jobs) : WatchWithoutKeys(session, jobs);
}

}  // namespace muster::client
