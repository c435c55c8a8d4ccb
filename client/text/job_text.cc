#include "client/text/job_text.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "client/terminal/record_json.h"
#include "client/text/assessment_text.h"
#include "client/text/code_text.h"
#include "client/text/last_lines.h"
#include "client/text/outputs.h"
#include "client/text/record_text.h"
#include "client/text/version_text.h"
#include "common/base/status.h"
#include "common/job/notify.h"
#include "common/job/shape.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

using common::StrAppend;
using common::StrCat;

constexpr int kAttemptsShown = 5;
constexpr int kCheckpointsShown = 5;

class Sheet {
 public:
  explicit Sheet(const Terminal& terminal) : terminal_(terminal) {}

  void Field(std::string_view name, std::string_view value) {
    if (value.empty()) return;
    const std::string text = common::Printable(value);
    const std::string label =
        StrCat(name, std::string(name.size() < 13 ? 13 - name.size() : 1, ' '));
    StrAppend(&out_, bold(), label, reset(),
              terminal_.out_is_tty ? Wrapped(text, label.size()) : text, "\n");
  }
  void Line(std::string_view text) { StrAppend(&out_, "  ", common::Printable(text), "\n"); }
  void Title(std::string_view text) { StrAppend(&out_, "\n", bold(), text, reset(), "\n"); }
  // Several lines of a rank, separated by a bar.
  void Quote(std::string_view text) {
    while (!text.empty()) {
      const size_t end = text.find('\n');
      StrAppend(&out_, "    | ", common::Printable(text.substr(0, end)), "\n");
      if (end == std::string_view::npos) break;
      text.remove_prefix(end + 1);
    }
  }
  // Appends complete lines.
  void Text(std::string_view text) { StrAppend(&out_, text); }
  std::string Take() { return std::move(out_); }

 private:
  std::string bold() const { return terminal_.color_out ? "\033[1m" : ""; }
  std::string reset() const { return terminal_.color_out ? "\033[0m" : ""; }

  // Breaks at spaces; continuation lines are aligned with the first.
  std::string Wrapped(std::string_view text, size_t indent) const {
    std::string out;
    const size_t width = std::max<size_t>(terminal_.width - indent, 20);
    while (DisplayWidth(text) > width) {
      size_t cut = std::min(text.size(), width);
      const size_t blank = text.rfind(' ', cut);
      if (blank == std::string_view::npos || blank == 0) break;
      StrAppend(&out, text.substr(0, blank), "\n", std::string(indent, ' '));
      text.remove_prefix(blank + 1);
    }
    return StrCat(out, text);
  }

  const Terminal& terminal_;
  std::string out_;
};

std::string Times(const v1::JobRecord& record) {
  std::string text = LocalTime(record.submitted_ms());
  if (record.first_running_ms() > 0) {
    StrAppend(&text, ", ran from ", ClockTime(record.first_running_ms()));
    if (record.finished_ms() > 0) StrAppend(&text, " to ", ClockTime(record.finished_ms()));
  }
  return text;
}

void AddAttempt(const v1::Attempt& attempt, const v1::JobSpec& spec, Sheet* sheet) {
  std::string text =
      StrCat("attempt ", attempt.number(), ": ", common::Counted(attempt.world_size(), "rank"));
  if (attempt.master_port() > 0) {
    StrAppend(&text, ", master ", attempt.master_addr(), ":", attempt.master_port());
  }
  if (attempt.resume_step() > 0) StrAppend(&text, ", from step ", attempt.resume_step());
  if (attempt.ended_ms() > 0) {
    StrAppend(&text, ", ", CauseName(attempt.cause()), " after ",
              Took(attempt.ended_ms() - attempt.started_ms()));
  }
  sheet->Line(text);
  for (const v1::NodePart& part : attempt.parts()) {
    sheet->Line(StrCat("  ", PartText(part)));
    if (!part.has_preparation()) continue;
    const std::string preparation = PreparationText(part.preparation(), spec);
    if (!preparation.empty()) sheet->Line(StrCat("    ", preparation));
  }
  if (attempt.parts_left_out() > 0) {
    sheet->Line(StrCat("  … and ", common::Counted(attempt.parts_left_out(), "more node")));
  }
  if (!attempt.has_culprit()) return;
  const v1::RankExit& culprit = attempt.culprit();
  if (!attempt.reason().empty()) sheet->Line(StrCat("  ", attempt.reason()));
  const bool is_cancelled =
      attempt.cause() == v1::STOP_CAUSE_CANCELLED || attempt.cause() == v1::STOP_CAUSE_CLIENT_GONE;
  if (is_cancelled) return;  // what a rank printed is then not the reason
  sheet->Quote(!culprit.error_message().empty() ? culprit.error_message() : LinesToQuote(culprit));
}

void AddCheckpoints(const v1::JobRecord& record, Sheet* sheet) {
  int committed = 0;
  for (const v1::Checkpoint& checkpoint : record.checkpoints()) {
    if (checkpoint.state() == v1::CHECKPOINT_STATE_COMMITTED) ++committed;
  }
  if (committed == 0) return;
  sheet->Title("Checkpoints");
  int shown = 0;
  for (int i = record.checkpoints_size() - 1; i >= 0 && shown < kCheckpointsShown; --i) {
    const v1::Checkpoint& checkpoint = record.checkpoints(i);
    if (checkpoint.state() != v1::CHECKPOINT_STATE_COMMITTED) continue;
    ++shown;
    sheet->Line(StrCat("step ", checkpoint.step(), "  ", common::HumanBytes(checkpoint.bytes()),
                       "  ", checkpoint.file_count(),
                       checkpoint.file_count() == 1 ? " file" : " files",
                       checkpoint.flagged_corrupt() ? "  DAMAGED" : ""));
  }
}

void AddOutputs(const v1::JobRecord& record, Sheet* sheet) {
  if (record.outputs().empty()) return;
  sheet->Title("Outputs");
  for (auto outputs = record.outputs().rbegin(); outputs != record.outputs().rend(); ++outputs) {
    const bool committed = outputs->state() == v1::CHECKPOINT_STATE_COMMITTED;
    sheet->Line(StrCat("attempt ", outputs->attempt(), "  ", common::HumanBytes(outputs->bytes()),
                       "  ", common::Counted(outputs->file_count(), "file"), "  ",
                       committed ? StrCat(Age(outputs->committed_ms()), " ago") : "uploading",
                       "  from ", OutputsNodes(record, *outputs),
                       outputs->flagged_corrupt() ? "  DAMAGED" : ""));
    for (const std::string& note : OutputsNotes(record, outputs->attempt())) {
      sheet->Line(StrCat("  ", note));
    }
  }
  sheet->Line(StrCat("jobctl cp ", record.name(), ": DIR"));
}

void AddAgain(const v1::JobRecord& record, Sheet* sheet) {
  sheet->Title("Again");
  sheet->Line(StrCat("jobctl rerun ", record.name()));
  const auto& checkpoints = record.checkpoints();
  const bool can_continue =
      IsOver(record.state()) && record.state() != v1::JOB_STATE_SUCCEEDED &&
      std::any_of(checkpoints.begin(), checkpoints.end(), [](const v1::Checkpoint& each) {
        return each.state() == v1::CHECKPOINT_STATE_COMMITTED;
      });
  if (can_continue) sheet->Line(StrCat("jobctl rerun ", record.name(), " --from last"));
  sheet->Line(ReproduceLine(record.spec()));
}

// As a flag takes it.
std::string Duration(uint64_t milliseconds) {
  return milliseconds % 1'000 == 0 ? StrCat(milliseconds / 1'000, "s") : StrCat(milliseconds, "ms");
}

}  // namespace

void HideSecrets(v1::JobSpec* spec) {
  job::HideWebhooks(*spec);
  for (auto& [name, value] : *spec->mutable_env()) {
    if (common::LooksSecret(name) && !value.empty()) value = "(hidden)";
  }
}

std::string ReproduceLine(const v1::JobSpec& spec) {
  const v1::Shape& shape = spec.shape();
  std::string line = "jobctl run";
  const uint32_t ranks = shape.processes() > 0 ? shape.processes()
                                               : shape.per_node() * std::max(1u, shape.min_nodes());
  StrAppend(&line, " -n ", ranks);
  if (shape.min_nodes() > 0 && shape.min_nodes() == shape.max_nodes())
    StrAppend(&line, " --nodes ", shape.min_nodes());
  if (!shape.device().kind().empty()) {
    const std::string& kind =
        shape.device().model().empty() ? shape.device().kind() : shape.device().model();
    StrAppend(&line, " --devices ", kind);
    if (shape.device().count_per_rank() > 1)
      StrAppend(&line, ":", ranks * shape.device().count_per_rank());
  }
  if (shape.limits().cpu_millis() > 0)
    StrAppend(&line, " --cpus ", shape.limits().cpu_millis() / 1'000.0);
  if (shape.limits().memory_bytes() > 0)
    StrAppend(&line, " --memory ", shape.limits().memory_bytes());
  if (spec.max_duration_ms() > 0) StrAppend(&line, " --time ", Duration(spec.max_duration_ms()));
  if (spec.estimate_ms() > 0) StrAppend(&line, " --estimate ", Duration(spec.estimate_ms()));
  if (spec.restarts() > 0) StrAppend(&line, " --restarts ", spec.restarts());
  for (const auto& [key, value] : SortedLabels(spec.labels()))
    StrAppend(&line, " -l ", ShellQuote(StrCat(key, "=", value)));
  StrAppend(&line, CodeFlags(spec), " --");
  for (const std::string& word : spec.command()) StrAppend(&line, " ", ShellQuoteOnOneLine(word));
  return line;
}

std::string ShowJob(const v1::GetJobResponse& response, const v1::Assessment& assessment,
                    const Terminal& terminal) {
  const v1::JobRecord& record = response.record();
  const v1::JobSummary& summary = response.summary();
  Sheet sheet(terminal);
  sheet.Field("Job", StrCat(record.name(), " (", record.id(), ")"));
  sheet.Field("State",
              IsOver(record.state())
                  ? StrCat(StateName(record.state()), " ", Age(record.finished_ms()), " ago")
                  : StrCat(StateName(record.state()), " for ", Age(record.state_ms())));
  sheet.Field("Reason", record.reason());
  if (record.state() == v1::JOB_STATE_FAILED)
    sheet.Field("Exit code", std::to_string(record.exit_code()));
  sheet.Field("Owner", OwnerText(summary));
  sheet.Field("Project", record.spec().project());
  sheet.Field("Secrets", absl::StrJoin(record.spec().secrets(), ", "));
  sheet.Field("Labels", LabelsText(SortedLabels(record.spec().labels())));
  sheet.Field("Submitted", Times(record));
  std::string shape = Layout(record);
  if (!record.resolved_device_kind().empty())
    StrAppend(&shape, ", ", record.resolved_device_kind());
  sheet.Field("Ranks", shape);
  const std::string limits = job::DescribeLimits(record.spec().shape().limits());
  if (!limits.empty()) sheet.Field("Limits", limits);
  if (summary.has_loss())
    sheet.Field("Progress", StrCat("step ", summary.step(), ", ",
                                   common::Printable(LossName(summary)), " ", summary.loss()));
  if (assessment.has_eta_ms()) {
    sheet.Field("Done in",
                StrCat(EtaText(assessment.eta_ms()), ", at step ", assessment.steps_total()));
  }
  const std::string goodput = GoodputText(assessment.ledger());
  if (!goodput.empty())
    sheet.Field("Goodput", StrCat(goodput, ": jobctl show ", record.name(), " --ledger"));
  if (record.attempts_size() > 0) {
    for (const std::string& line : VersionLines(*record.attempts().rbegin()))
      sheet.Field("Versions", line);
  }
  if (record.spec().has_code()) sheet.Field("Code", CodeText(record.spec().code()));
  sheet.Field("Directory", DirectoryText(record.spec()));
  sheet.Field("Container", ContainerText(record.spec().container()));
  sheet.Field("Setup", SetupText(record.spec()));
  sheet.Field("Outputs", absl::StrJoin(record.spec().outputs(), ", "));
  std::string command;
  for (const std::string& word : record.spec().command())
    StrAppend(&command, command.empty() ? "" : " ", ShellQuoteOnOneLine(word));
  sheet.Field("Command", command);
  if (record.spec().restarts() > 0) {
    sheet.Field("Restarts", StrCat(record.failures(), " of ", record.spec().restarts(), " used"));
  }
  if (record.spec().rerun_of() > 0)
    sheet.Field("Rerun of", StrCat("job ", record.spec().rerun_of()));
  if (record.attempts_size() > 0) {
    sheet.Title("Attempts");
    const int first = std::max(0, record.attempts_size() - kAttemptsShown);
    const uint32_t hidden = record.dropped_attempts() + static_cast<uint32_t>(first);
    if (hidden > 0)
      sheet.Line(StrCat(common::Counted(hidden, "earlier one"), ": jobctl events ", record.name()));
    for (int i = first; i < record.attempts_size(); ++i)
      AddAttempt(record.attempts(i), record.spec(), &sheet);
  }
  AddCheckpoints(record, &sheet);
  AddOutputs(record, &sheet);
  std::string findings = FindingList(assessment, terminal);
  if (!findings.empty()) sheet.Title("Findings");
  sheet.Text(findings);
  AddAgain(record, &sheet);
  return FindingHead(assessment, terminal) + sheet.Take();
}

absl::StatusOr<std::string> RecordJson(const v1::JobRecord& record,
                                       const v1::Assessment& assessment) {
  ASSIGN_OR_RETURN(std::string json, MessageJson(record));
  json = WithKind("Job", json);
  if (assessment.job() == 0) return json;
  ASSIGN_OR_RETURN(std::string judged, MessageJson(assessment));
  return WithMember(std::move(json), "assessment", std::move(judged));
}

absl::StatusOr<std::string> RecordYaml(const v1::JobRecord& record,
                                       const v1::Assessment& assessment) {
  ASSIGN_OR_RETURN(const std::string json, RecordJson(record, assessment));
  return YamlOfJson(json);
}

}  // namespace muster::client
