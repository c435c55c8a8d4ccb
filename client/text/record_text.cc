#include "client/text/record_text.h"

#include <sys/time.h>

#include <algorithm>
#include <cctype>
#include <ctime>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "client/command_line/errors.h"
#include "common/job/shape.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

using common::StrCat;

// "STOP_CAUSE_RANK_FAILED" -> "RANK_FAILED"
std::string WithoutPrefix(const std::string& name, std::string_view prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

std::string FormatLocal(int64_t unix_ms, const char* format) {
  if (unix_ms == 0) return "";
  const time_t seconds = static_cast<time_t>(unix_ms / 1000);
  tm parts{};
  localtime_r(&seconds, &parts);
  char text[64];
  strftime(text, sizeof(text), format, &parts);
  return text;
}

}  // namespace

std::string StateName(v1::JobState state) {
  return WithoutPrefix(v1::JobState_Name(state), "JOB_STATE_");
}

std::string_view StateColor(v1::JobState state, bool color) {
  if (!color) return "";
  switch (state) {
    case v1::JOB_STATE_SUCCEEDED:
      return "\033[32m";
    case v1::JOB_STATE_FAILED:
      return "\033[31m";
    case v1::JOB_STATE_RUNNING:
      return "\033[36m";
    case v1::JOB_STATE_CANCELLED:
      return "\033[33m";
    default:
      return "";
  }
}

bool IsAtRest(const v1::JobRecord& record) { return record.held() || IsOver(record.state()); }

bool IsOver(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED ||
         state == v1::JOB_STATE_CANCELLED;
}

std::string NodeStateName(v1::NodeState state) {
  return WithoutPrefix(v1::NodeState_Name(state), "NODE_STATE_");
}

std::string_view LossName(const v1::JobSummary& summary) {
  return summary.loss_name().empty() ? std::string_view("loss") : summary.loss_name();
}

std::string OwnerText(const v1::JobSummary& summary) {
  return common::StrCat(summary.owner(), summary.owner_is_gone() ? " (removed)" : "");
}

std::string CauseName(v1::StopCause cause) {
  if (cause == v1::STOP_CAUSE_UNSPECIFIED) return "";
  std::string name = WithoutPrefix(v1::StopCause_Name(cause), "STOP_CAUSE_");
  for (char& c : name)
    c = c == '_' ? ' ' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

int64_t WallMs() {
  timeval now{};
  gettimeofday(&now, nullptr);
  return int64_t{now.tv_sec} * 1000 + now.tv_usec / 1000;
}

std::string LocalTime(int64_t unix_ms) { return FormatLocal(unix_ms, "%Y-%m-%d %H:%M:%S"); }
std::string ClockTime(int64_t unix_ms) { return FormatLocal(unix_ms, "%H:%M:%S"); }

std::string Age(int64_t unix_ms) {
  // An age in milliseconds would be outdated when read.
  return unix_ms == 0
             ? ""
             : common::HumanDuration(std::max<int64_t>(0, WallMs() - unix_ms) / 1000 * 1000);
}

std::string Ranges(const google::protobuf::RepeatedField<uint32_t>& numbers) {
  std::string out;
  for (int i = 0; i < numbers.size();) {
    int last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    common::StrAppend(&out, out.empty() ? "" : ",", numbers[i]);
    if (last > i) common::StrAppend(&out, "-", numbers[last]);
    i = last + 1;
  }
  return out;
}

LabelsByKey SortedLabels(const google::protobuf::Map<std::string, std::string>& labels) {
  LabelsByKey sorted;
  for (const auto& [key, value] : labels) sorted[key] = value;
  return sorted;
}

std::string LabelsText(const LabelsByKey& labels) {
  std::string out;
  for (const auto& [key, value] : labels)
    common::StrAppend(&out, out.empty() ? "" : ", ", key, "=", value);
  return out;
}

std::string PartText(const v1::NodePart& part) {
  const uint32_t last = part.first_rank() + part.local_world_size() - 1;
  std::string text = StrCat(part.node(), ": ");
  if (part.local_world_size() == 1) {
    common::StrAppend(&text, "rank ", part.first_rank());
  } else {
    common::StrAppend(&text, "ranks ", part.first_rank(), "-", last);
  }
  if (!part.device_kind().empty()) common::StrAppend(&text, " on ", part.device_kind());
  if (part.device_indexes_size() > 0) common::StrAppend(&text, " ", Ranges(part.device_indexes()));
  return text;
}

std::string Layout(const v1::JobRecord& record) {
  if (record.attempts_size() == 0) return job::DescribeRanks(record.spec().shape());
  const v1::Attempt& attempt = record.attempts(record.attempts_size() - 1);
  return job::DescribeWorld(attempt.world_size(), attempt.parts_size());
}

std::string Took(int64_t milliseconds) {
  if (milliseconds >= 10'000) return common::HumanDuration(milliseconds);
  if (milliseconds >= 1'000) return absl::StrFormat("%.1fs", milliseconds / 1000.0);
  return StrCat(std::max<int64_t>(0, milliseconds), "ms");
}

std::string Verdict(const v1::JobRecord& record, bool color) {
  const int64_t begin =
      record.first_running_ms() > 0 ? record.first_running_ms() : record.submitted_ms();
  const std::string took = Took(record.finished_ms() - begin);
  const std::string_view paint = StateColor(record.state(), color);
  const std::string_view reset = paint.empty() ? "" : "\033[0m";
  const std::string reason =
      record.reason().empty() ? "" : StrCat(": ", common::Printable(record.reason()));
  if (record.held())
    return StrCat(StateName(record.state()), ", ", common::Printable(record.reason()));
  switch (record.state()) {
    case v1::JOB_STATE_SUCCEEDED:
      return StrCat(paint, "✓ succeeded", reset, " in ", took);
    case v1::JOB_STATE_FAILED:
      return StrCat(paint, "✗ failed", reset, " after ", took, reason);
    case v1::JOB_STATE_CANCELLED:
      return StrCat(paint, "cancelled", reset, " after ", took, reason);
    default:
      return StrCat(StateName(record.state()), reason);
  }
}

int RunExitCode(const v1::JobRecord& record) {
  if (record.held()) return kExitHeld;
  if (record.state() == v1::JOB_STATE_SUCCEEDED) return kExitOk;
  if (record.state() == v1::JOB_STATE_CANCELLED) return kExitCancelled;
  return record.exit_code() > 0 && record.exit_code() < 256 ? record.exit_code() : kExitFailed;
}

int WaitExitCode(const v1::JobRecord& record, bool propagate) {
  if (propagate || record.held() || record.state() == v1::JOB_STATE_SUCCEEDED)
    return RunExitCode(record);
  return record.state() == v1::JOB_STATE_CANCELLED ? kExitCancelled : kExitJobFailed;
}

std::string ShellQuote(std::string_view word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("_-./=:,@%+").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return std::string(word);
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string ShellQuoteOnOneLine(std::string_view word) {
  const auto is_control = [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); };
  if (std::none_of(word.begin(), word.end(), is_control)) return ShellQuote(word);
  std::string out = "$'";
  for (const char c : word) {
    if (c == '\n') {
      out += "\\n";
    } else if (is_control(c)) {
      out += absl::StrFormat("\\%03o", static_cast<unsigned>(c));
    } else {
      if (c == '\'' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + "'";
}

}  // namespace muster::client
