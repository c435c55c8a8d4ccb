// jobctl top.
#include <unistd.h>

#include <algorithm>
#include <span>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/command_line/arguments.h"
#include "client/command_line/errors.h"
#include "client/commands/commands.h"
#include "client/connection/connection.h"
#include "client/session/session.h"
#include "client/terminal/listing.h"
#include "client/terminal/live_screen.h"
#include "client/terminal/row_window.h"
#include "client/terminal/signals.h"
#include "client/text/rank_grid.h"
#include "client/text/record_text.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr int kTopEveryMs = 1'000;
constexpr int64_t kOldSampleMs = 5'000;

constexpr Flag kTopFlags[] = {
    {"nodes", 0, "", "a row per node instead of one per rank"},
    {"once", 0, "",
     "print once and exit (the default in a pipe, and with -o, --columns, --sort …)"},
};

constexpr std::string_view kTopHelp =
    "q      quit\n"
    "c      busiest processors first\n"
    "m      largest memory first\n"
    "s      slowest steps first\n"
    "r      in order of rank\n"
    "space  pause, continue\n"
    "↑ ↓ PgUp PgDn Home End (or k j b f g G)  scroll\n"
    "h      this text\n\n"
    "CPU%: 100 is one core. RSS: memory of the rank's processes; shared pages\n"
    "count in each. READ, WRITE: bytes per second from and to storage. UTIL, MEM,\n"
    "POWER, TEMP: of its device. STEP-MS: mean of the newest steps. ◀ marks the\n"
    "rank that is slowest, or behind the others.\n";

absl::StatusOr<std::vector<v1::SampleBucket>> Newest(Connection& connection,
                                                     const std::string& job) {
  v1::QuerySamplesRequest request;
  request.set_job(job);
  request.set_newest(true);
  std::vector<v1::SampleBucket> newest;
  RETURN_IF_ERROR(connection.QuerySamples(request, [&newest](const v1::SampleBucket& bucket) {
    newest.push_back(bucket);
    return true;
  }));
  return newest;
}

// What one refresh shows.
struct Moment {
  std::string title;
  std::vector<RankRow> ranks;
  Listing nodes;  // with --nodes
  bool is_over = false;
};

class Top {
 public:
  Top(Connection& connection, std::string job, bool of_nodes)
      : connection_(connection), job_(std::move(job)), of_nodes_(of_nodes) {}

  absl::StatusOr<Moment> Look() const { return of_nodes_ ? LookAtNodes() : LookAtJob(); }
  Listing ListingOf(const Moment& moment) const {
    return of_nodes_ ? moment.nodes : RankListing(moment.ranks);
  }
  absl::StatusOr<int> Live(const Session& session);

 private:
  absl::StatusOr<Moment> LookAtJob() const;
  absl::StatusOr<Moment> LookAtNodes() const;
  absl::StatusOr<std::string> Screen(const Moment& moment, const Terminal& terminal);
  // False: quit.
  bool OnKey(const LiveScreen::Event& event);

  Connection& connection_;
  const std::string job_;
  const bool of_nodes_;
  GridOrder order_ = GridOrder::kRank;
  RowWindow window_;
  bool is_paused_ = false;
  bool shows_help_ = false;
};

absl::StatusOr<Moment> Top::LookAtJob() const {
  ASSIGN_OR_RETURN(const v1::GetJobResponse response, connection_.GetJob(job_));
  const v1::JobRecord& record = response.record();
  ASSIGN_OR_RETURN(const std::vector<v1::SampleBucket> newest,
                   Newest(connection_, std::to_string(record.id())));
  Moment moment;
  moment.is_over = IsOver(record.state());
  if (!moment.is_over) moment.ranks = RankRows(record, newest);
  int64_t oldest_ms = 0;
  size_t measured = 0;
  for (const RankRow& row : moment.ranks) {
    if (!row.sample.has_value()) continue;
    ++measured;
    oldest_ms = std::max(oldest_ms, row.age_ms);
  }
  moment.title = StrCat(record.name(), "  ", StateName(record.state()), "  ", Layout(record));
  if (moment.is_over) {
    moment.title += "  nothing is running";
  } else if (measured < moment.ranks.size()) {
    common::StrAppend(&moment.title, "  no samples yet from ", moment.ranks.size() - measured,
                      " of them");
  }
  if (oldest_ms > kOldSampleMs) {
    common::StrAppend(&moment.title, "  oldest sample ", Took(oldest_ms), " old");
  }
  return moment;
}

absl::StatusOr<Moment> Top::LookAtNodes() const {
  ASSIGN_OR_RETURN(const v1::ListNodesResponse nodes, connection_.ListNodes());
  ASSIGN_OR_RETURN(const std::vector<v1::SampleBucket> newest, Newest(connection_, ""));
  Moment moment;
  moment.nodes = NodeListing(nodes, newest);
  moment.title = StrCat(nodes.nodes_size(), nodes.nodes_size() == 1 ? " node" : " nodes");
  return moment;
}

absl::StatusOr<std::string> Top::Screen(const Moment& moment, const Terminal& terminal) {
  Listing listing = ListingOf(moment);
  // Besides rows: the title, the column names, and the line of keys.
  const size_t rows = listing.rows.size();
  window_.Fit(rows, terminal.height > 4 ? terminal.height - 3 : 1);
  // Widths are those of all rows, so that columns stay in place while scrolling.
  ASSIGN_OR_RETURN(const std::string table, GridText(listing, terminal));
  std::vector<std::string> lines = absl::StrSplit(table, '\n');
  std::string text = StrCat(Shorten(common::Printable(moment.title), terminal.width), "\n");
  if (shows_help_) return StrCat(text, kTopHelp);
  common::StrAppend(&text, lines[0], "\n");
  for (size_t i = window_.first(); i < window_.last() && i + 1 < lines.size(); ++i) {
    common::StrAppend(&text, Filtered(lines[i + 1]), "\n");
  }
  text +=
      Shorten(StrCat(is_paused_ ? "PAUSED  " : "", window_.PlaceText(rows, false),
                     of_nodes_ ? "q quit  space pause  h help"
                               : "q quit  c cpu  m memory  s slow  r rank  space pause  h help"),
              terminal.width);
  return text;
}

bool Top::OnKey(const LiveScreen::Event& event) {
  if (window_.OnKey(event) || event.key != LiveScreen::Key::kCharacter) return true;
  switch (event.character) {
    case 'q':
      return false;
    case 'c':
      order_ = GridOrder::kCpu;
      break;
    case 'm':
      order_ = GridOrder::kMemory;
      break;
    case 's':
      order_ = GridOrder::kStep;
      break;
    case 'r':
      order_ = GridOrder::kRank;
      break;
    case ' ':
      is_paused_ = !is_paused_;
      break;
    case 'h':
    case '?':
      shows_help_ = !shows_help_;
      break;
    default:
      break;
  }
  return true;
}

absl::StatusOr<int> Top::Live(const Session& session) {
  ASSIGN_OR_RETURN(Moment moment, Look());  // before Open: errors belong on the ordinary screen
  LiveScreen screen;
  RETURN_IF_ERROR(screen.Open());
  int64_t next_ms = WallMs() + kTopEveryMs;
  while (true) {
    const Terminal terminal = DetectTerminal(session.settings().Get("color"));
    if (!of_nodes_) SortRows(order_, &moment.ranks);
    ASSIGN_OR_RETURN(const std::string text, Screen(moment, terminal));
    screen.Draw(text);
    const LiveScreen::Event event =
        screen.Next(static_cast<int>(std::clamp<int64_t>(next_ms - WallMs(), 0, kTopEveryMs)));
    if (event.key == LiveScreen::Key::kSignal) return 128 + event.signal;
    if (!OnKey(event)) return kExitOk;
    // A clock that is set back must not stop the refresh.
    if (WallMs() < next_ms && WallMs() > next_ms - 2 * kTopEveryMs) continue;
    next_ms = WallMs() + kTopEveryMs;
    if (is_paused_) continue;
    absl::StatusOr<Moment> next = Look();
    if (!next.ok() && !absl::IsUnavailable(next.status())) return next.status();
    if (next.ok()) {
      moment = *std::move(next);
    } else {  // the coordinator is restarting: the last rows stay on the screen
      moment.title = Sentence(next.status());
    }
  }
}

// The default for JOB.
absl::StatusOr<std::string> NewestRunning(Connection& connection) {
  v1::ListJobsRequest request;
  request.add_states(v1::JOB_STATE_RUNNING);
  request.set_limit(1);
  ASSIGN_OR_RETURN(const v1::ListJobsResponse response, connection.ListJobs(request));
  return response.jobs().empty() ? "" : std::to_string(response.jobs(0).id());
}

// A request for columns, an order or a format is one for the listing.
bool IsLive(const Terminal& terminal, const Arguments& arguments) {
  if (!terminal.out_is_tty || isatty(STDIN_FILENO) != 1 || arguments.Has("once")) return false;
  const std::span<const Flag> flags = ListingFlags();
  return std::none_of(flags.begin(), flags.end(),
                      [&arguments](const Flag& flag) { return arguments.Has(flag.name); });
}

absl::StatusOr<int> RunTop(Session& session, const Arguments& arguments) {
  const bool of_nodes = arguments.Has("nodes");
  std::string job = arguments.words().empty() ? "" : arguments.words()[0];
  if (of_nodes && !job.empty()) {
    return Usage("JC1004", "--nodes shows all nodes, not those of one job",
                 StrCat("jobctl top ", job, ", or jobctl top --nodes"));
  }
  const Terminal& terminal = session.terminal();
  const bool is_live = IsLive(terminal, arguments);
  if (is_live) WatchSignals();  // before the connection's threads start
  ASSIGN_OR_RETURN(Connection * connection, session.ConnectIfAny());
  if (connection != nullptr && !of_nodes && job.empty()) {
    ASSIGN_OR_RETURN(job, NewestRunning(*connection));
  }
  if (connection == nullptr || (!of_nodes && job.empty())) {
    session.Note("no job is running; start one: jobctl run -n 2 -- python train.py");
    RETURN_IF_ERROR(
        session.PrintListing(of_nodes ? NodeListing({}, {}) : RankListing({}), arguments));
    return kExitOk;
  }
  Top top(*connection, job, of_nodes);
  if (is_live) return top.Live(session);
  ASSIGN_OR_RETURN(const Moment moment, top.Look());
  if (moment.is_over) session.Note(moment.title);
  RETURN_IF_ERROR(session.PrintListing(top.ListingOf(moment), arguments));
  return kExitOk;
}

}  // namespace

const Command kTopCommand = {
    .name = "top",
    .place = 150,
    .summary = "watch what ranks, devices and nodes are doing",
    .arguments = "[JOB]",
    .least = 0,
    .most = 1,
    .flags = kTopFlags,
    .listing = true,
    .completes = "job",
    .examples =
        "jobctl top\tranks of the newest running job, live; the slowest is marked\n"
        "jobctl top --nodes\twhat each node's devices, processors and memory do\n"
        "jobctl top calm-otter-3 --once --sort -step-ms\tone snapshot, slowest first\n"
        "jobctl top calm-otter-3 -o json\tfor programs",
    .notes = "Nodes measure once a second while a job runs. Keys: h shows them.",
    .run = RunTop};

}  // namespace muster::client
