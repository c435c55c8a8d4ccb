// report: sections in the order of a reader's questions.
#include "client/diagnosis/report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/text/record_text.h"
#include "client/text/version_text.h"
#include "common/text/json_text.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

using common::Printable;
using common::StrAppend;
using common::StrCat;

constexpr int64_t kLastMinuteMs = 60'000;
constexpr size_t kEventsTold = 8;
constexpr size_t kDeathsTold = 8;
constexpr size_t kLinesTold = 6;
constexpr size_t kNodesTold = 8;
constexpr size_t kMetricsTold = 4;
constexpr size_t kLineBytes = 200;
constexpr size_t kSentenceBytes = 800;

// "first cause  text", further lines below the first one's text.
class ReportSection {
 public:
  explicit ReportSection(std::string title) : title_(std::move(title)) {}
  void Add(const std::string& line, size_t bytes_max = kLineBytes) {
    lines_.push_back(common::Clipped(line, bytes_max));
  }
  std::string Text() const {
    std::string text;
    for (size_t i = 0; i < lines_.size(); ++i) {
      StrAppend(&text, absl::StrFormat("%-12s  ", i == 0 ? title_ : ""), lines_[i], "\n");
    }
    return text;
  }

 private:
  std::string title_;
  std::vector<std::string> lines_;
};

int64_t EndMs(const CaseFile& file) {
  return file.job.finished_ms() > 0 ? file.job.finished_ms() : file.now_ms;
}

std::string HeadLine(const CaseFile& file) {
  const v1::Attempt* attempt = AttemptTold(file.job);
  std::string text = StrCat(Printable(file.job.name()), ": ", StateName(file.job.state()));
  StrAppend(&text, ", ", Layout(file.job));
  if (attempt != nullptr && file.job.attempts_size() > 1) {
    StrAppend(&text, ", attempt ", attempt->number(), " of 0 to ",
              file.job.attempts().rbegin()->number());
  }
  return StrCat(text, IsOver(file.job.state()) ? ", ended " : ", now ", LocalTime(EndMs(file)),
                "\n\n");
}

// Events of the last minute; if there are none, the last event.
std::vector<const CaseEvent*> LastEvents(const CaseFile& file) {
  std::vector<const CaseEvent*> last;
  for (const CaseEvent& event : file.events) {
    if (event.at_ms >= EndMs(file) - kLastMinuteMs) last.push_back(&event);
  }
  if (last.empty() && !file.events.empty()) last.push_back(&file.events.back());
  return last;
}

ReportSection EventsSection(const CaseFile& file) {
  ReportSection section("last minute");
  const std::vector<const CaseEvent*> events = LastEvents(file);
  // Both ends are kept: they show what came first and how it ended.
  const size_t head = kEventsTold / 2;
  for (size_t i = 0; i < events.size(); ++i) {
    if (events.size() > kEventsTold && i == head) {
      section.Add(
          StrCat("… ", events.size() - kEventsTold, " more: jobctl events ", file.job.name()));
      i = events.size() - (kEventsTold - head);
    }
    section.Add(StrCat(ClockTime(events[i]->at_ms), "  ", Printable(events[i]->text)));
  }
  return section;
}

std::string HowItEnded(const v1::RankExit& exit) {
  std::string text;
  if (exit.launch_errno() != 0) {
    text = "could not start";
  } else if (exit.memory_limit_bytes() > 0) {
    text = StrCat("reached its memory limit of ", common::ExactBytes(exit.memory_limit_bytes()));
  } else if (exit.out_of_memory()) {
    text = "out of memory";
  } else if (exit.signal() != 0) {
    const char* name = sigabbrev_np(exit.signal());
    text = name == nullptr ? StrCat("signal ", exit.signal()) : StrCat("SIG", name);
  } else {
    text = StrCat("exit code ", exit.exit_code());
  }
  return exit.stopped_by_us() ? StrCat(text, ", stopped by Muster") : text;
}

ReportSection RanksSection(const CaseFile& file, const v1::Attempt& attempt) {
  ReportSection section("ranks");
  const std::vector<v1::RankExit> deaths = DeathsInOrder(attempt);
  for (size_t i = 0; i < std::min(deaths.size(), kDeathsTold); ++i) {
    section.Add(absl::StrFormat("%s  rank %d on %s: %s%s", ClockTime(deaths[i].ended_ms()),
                                deaths[i].rank(), Printable(deaths[i].node()),
                                HowItEnded(deaths[i]),
                                i == 0 && !deaths[0].stopped_by_us() ? "  (first)" : ""));
  }
  if (deaths.size() > kDeathsTold) {
    section.Add(StrCat("… and ", deaths.size() - kDeathsTold, " more"));
  }
  if (attempt.exits_left_out() > 0) {
    section.Add(StrCat(attempt.exits_left_out(),
                       " exits are not shown: the job is too large for one answer"));
  }
  if (!file.records.empty()) {
    const HangReport report = MakeHangReport(static_cast<int>(attempt.world_size()), file.records);
    const std::vector<std::string> lines = absl::StrSplit(report.table, '\n', absl::SkipEmpty());
    for (size_t i = 0; i < std::min(lines.size(), kDeathsTold + 1); ++i) section.Add(lines[i]);
  }
  return section;
}

ReportSection TailSection(const CaseFile& file, uint32_t rank) {
  ReportSection section(StrCat("rank ", rank, " wrote"));
  const auto tail = file.tails.find(rank);
  if (tail == file.tails.end()) return section;
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(tail->second, '\n', absl::SkipWhitespace())) {
    lines.push_back(Printable(std::string_view(line.data(), line.size())));
  }
  for (size_t i = lines.size() - std::min(lines.size(), kLinesTold); i < lines.size(); ++i) {
    section.Add(StrCat("| ", lines[i]));
  }
  if (lines.empty()) section.Add("(nothing)");
  return section;
}

std::string ProgressText(const CaseFile& file) {
  if (file.metrics.empty()) return "no metrics";
  int64_t step = -1;
  for (const v1::MetricSummary& metric : file.metrics)
    step = std::max<int64_t>(step, metric.last_step());
  std::string text = StrCat("step ", step);
  if (file.last_metric_ms > 0) {
    const int64_t before_ms = std::max<int64_t>(0, EndMs(file) - file.last_metric_ms);
    StrAppend(&text, " at ", ClockTime(file.last_metric_ms), ", ", Took(before_ms),
              IsOver(file.job.state()) ? " before the end" : " ago");
  }
  size_t told = 0;
  for (const v1::MetricSummary& metric : file.metrics) {
    if (metric.rank() != 0 || absl::StartsWith(metric.name(), "time/") || told == kMetricsTold)
      continue;
    StrAppend(&text, told++ == 0 ? "; " : ", ", Printable(metric.name()),
              absl::StrFormat(" %.5g", metric.last()));
  }
  return text;
}

std::string CheckpointsText(const v1::JobRecord& job) {
  const v1::Checkpoint* newest = nullptr;
  for (const v1::Checkpoint& one : job.checkpoints()) {
    if (one.state() == v1::CHECKPOINT_STATE_COMMITTED &&
        (newest == nullptr || one.step() > newest->step()))
      newest = &one;
  }
  std::string text = newest == nullptr ? "no checkpoint"
                                       : StrCat("checkpoint of step ", newest->step(), " at ",
                                                ClockTime(newest->committed_ms()));
  StrAppend(&text, "; ", job.failures(), " of ", common::Counted(job.spec().restarts(), "restart"),
            " used");
  if (job.node_losses() > 0)
    StrAppend(&text, ", ", common::Counted(job.node_losses(), "node"), " lost");
  return text;
}

std::string MemoryText(uint64_t bytes) {
  constexpr uint64_t kGiB = 1 << 30;
  return bytes < 4 * kGiB ? StrCat(bytes >> 20, " MiB") : StrCat(bytes / kGiB, " GiB");
}

std::string NodeLine(const v1::NodeView& view) {
  const v1::NodeRecord& node = view.record();
  std::map<std::string, int> devices;
  for (const v1::Device& device : node.facts().devices()) {
    ++devices[device.model().empty() ? device.kind() : StrCat(device.kind(), " ", device.model())];
  }
  std::string text = StrCat(Printable(node.facts().name()), " ", NodeStateName(node.state()));
  if (!node.connected()) text += ", not connected";
  if (node.draining())
    StrAppend(&text, ", draining", node.drain_reason().empty() ? "" : ": ",
              Printable(node.drain_reason()));
  for (const auto& [name, count] : devices) StrAppend(&text, ", ", count, " ", Printable(name));
  if (!node.facts().driver().empty())
    StrAppend(&text, ", driver ", Printable(node.facts().driver()));
  StrAppend(&text, ", ", node.facts().cores(), " cores, ", MemoryText(node.facts().memory_bytes()),
            ", muster ", Printable(node.facts().version()));
  if (node.state() != v1::NODE_STATE_ALIVE && !node.reason().empty())
    StrAppend(&text, ": ", Printable(node.reason()));
  return text;
}

// The attempt's nodes; all nodes if there is no attempt.
std::vector<const v1::NodeView*> NodesTold(const CaseFile& file) {
  const v1::Attempt* attempt = AttemptTold(file.job);
  std::vector<const v1::NodeView*> told;
  for (const v1::NodeView& node : file.nodes) {
    const bool part =
        attempt == nullptr ||
        std::any_of(attempt->parts().begin(), attempt->parts().end(),
                    [&](const auto& one) { return one.node() == node.record().facts().name(); });
    if (part) told.push_back(&node);
  }
  return told;
}

std::vector<std::string> VersionsOfJob(const CaseFile& file) {
  const v1::Attempt* attempt = AttemptTold(file.job);
  return attempt == nullptr ? std::vector<std::string>() : VersionLines(*attempt);
}

std::string MusterVersion(const CaseFile& file) {
  return StrCat("muster ", Printable(file.server.version()), ", jobctl ", file.client_version,
                ", protocol ", file.server.protocol());
}

}  // namespace

std::string VersionsText(const CaseFile& file) {
  std::string text = StrCat(MusterVersion(file), "\n");
  for (const std::string& line : VersionsOfJob(file)) StrAppend(&text, line, "\n");
  for (const v1::NodeView& node : file.nodes) StrAppend(&text, NodeLine(node), "\n");
  return text;
}

std::string DiagnosisText(const CaseFile& file, const FirstCause& cause) {
  std::vector<ReportSection> sections;
  ReportSection& first = sections.emplace_back("first cause");
  first.Add(cause.sentence, kSentenceBytes);
  for (const std::string& line : cause.evidence) first.Add(StrCat("- ", line));
  sections.push_back(EventsSection(file));
  const v1::Attempt* attempt = AttemptTold(file.job);
  if (attempt != nullptr) sections.push_back(RanksSection(file, *attempt));
  for (const uint32_t rank : cause.ranks) sections.push_back(TailSection(file, rank));
  ReportSection& progress = sections.emplace_back("progress");
  progress.Add(ProgressText(file));
  progress.Add(CheckpointsText(file.job));
  ReportSection& nodes = sections.emplace_back("nodes");
  const std::vector<const v1::NodeView*> told = NodesTold(file);
  for (size_t i = 0; i < std::min(told.size(), kNodesTold); ++i) nodes.Add(NodeLine(*told[i]));
  if (told.size() > kNodesTold) nodes.Add(StrCat("… and ", told.size() - kNodesTold, " more"));
  ReportSection& versions = sections.emplace_back("versions");
  for (const std::string& line : VersionsOfJob(file)) versions.Add(line);
  versions.Add(MusterVersion(file));
  ReportSection& gaps = sections.emplace_back("not known");
  for (const std::string& gap : file.gaps) gaps.Add(gap);
  std::string text = HeadLine(file);
  for (const ReportSection& section : sections) text += section.Text();
  text += "\n";
  for (const std::string& fix : cause.fixes) StrAppend(&text, "fix: ", fix, "\n");
  return text;
}

std::string DiagnosisJson(const CaseFile& file, const FirstCause& cause) {
  using json = nlohmann::ordered_json;
  json deaths = json::array();
  const v1::Attempt* attempt = AttemptTold(file.job);
  if (attempt != nullptr) {
    for (const v1::RankExit& exit : DeathsInOrder(*attempt)) {
      deaths.push_back({{"rank", exit.rank()},
                        {"node", exit.node()},
                        {"exit_code", exit.exit_code()},
                        {"signal", exit.signal()},
                        {"out_of_memory", exit.out_of_memory()},
                        {"memory_limit_bytes", exit.memory_limit_bytes()},
                        {"stopped_by_muster", exit.stopped_by_us()},
                        {"ended_ms", exit.ended_ms()}});
    }
  }
  json events = json::array();
  for (const CaseEvent* event : LastEvents(file)) {
    events.push_back({{"time_ms", event->at_ms}, {"node", event->node}, {"text", event->text}});
  }
  json tails = json::object();
  for (const uint32_t rank : cause.ranks) {
    const auto tail = file.tails.find(rank);
    if (tail != file.tails.end()) tails[std::to_string(rank)] = tail->second;
  }
  const json report = {
      {"version", 1},
      {"kind", "Diagnosis"},
      {"job", file.job.name()},
      {"state", StateName(file.job.state())},
      {"attempt", attempt == nullptr ? -1 : static_cast<int64_t>(attempt->number())},
      {"cause", {{"kind", cause.kind}, {"text", cause.sentence}, {"evidence", cause.evidence}}},
      {"fixes", cause.fixes},
      {"deaths", deaths},
      {"events", events},
      {"last_lines", tails},
      {"last_metric_ms", file.last_metric_ms},
      {"restarts_used", file.job.failures()},
      {"muster", file.server.version()},
      {"jobctl", file.client_version},
      {"gaps", file.gaps}};
  return common::EscapeHiddenJson(report.dump(2, ' ', false, json::error_handler_t::replace)) +
         "\n";
}

}  // namespace muster::client
