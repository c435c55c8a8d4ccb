#include "client/text/assessment_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "client/text/record_text.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

using common::StrAppend;
using common::StrCat;

constexpr int64_t kUsPerMs = 1'000;
constexpr size_t kBarWidth = 20;

std::string_view PaintOf(const v1::Finding& finding, bool color) {
  if (!color) return "";
  return finding.severity() == v1::FINDING_SEVERITY_ERROR ? "\033[31m" : "\033[33m";
}

// On a terminal, wraps at spaces; further lines are indented.
std::string WrappedText(std::string_view text, size_t indent, const Terminal& terminal) {
  if (!terminal.out_is_tty) return std::string(text);
  std::string out;
  const size_t width = std::max<size_t>(terminal.width - std::min(terminal.width, indent), 20);
  while (DisplayWidth(text) > width) {
    const size_t blank = text.rfind(' ', std::min(text.size(), width));
    if (blank == std::string_view::npos || blank == 0) break;
    StrAppend(&out, text.substr(0, blank), "\n", std::string(indent, ' '));
    text.remove_prefix(blank + 1);
  }
  return StrCat(out, text);
}

std::string FindingSentence(const v1::Finding& finding) {
  return common::Printable(finding.cause().empty()
                               ? finding.sentence()
                               : StrCat(finding.sentence(), ": ", finding.cause()));
}

void AddOne(const v1::Finding& finding, const Terminal& terminal, std::string* out) {
  const std::string_view paint = PaintOf(finding, terminal.color_out);
  StrAppend(out, paint, "!", paint.empty() ? "" : "\033[0m", " ",
            WrappedText(FindingSentence(finding), 2, terminal), "\n");
  if (!finding.fix().empty()) {
    StrAppend(out, "  fix: ", WrappedText(common::Printable(finding.fix()), 7, terminal), "\n");
  }
}

std::string NumberText(const v1::FindingNumber& number) {
  const std::string name = common::Printable(number.name());
  if (number.unit() == "bytes") {
    return StrCat(name, " ", common::HumanBytes(static_cast<uint64_t>(number.value())));
  }
  if (number.unit() == "s") {
    return StrCat(name, " ", Took(static_cast<int64_t>(number.value() * 1e3)));
  }
  return StrCat(name, " ", absl::StrFormat("%.4g", number.value()),
                number.unit().empty() ? "" : " ", common::Printable(number.unit()));
}

std::string Bar(double share, size_t width) {
  std::string bar;
  const auto filled = static_cast<size_t>(share * static_cast<double>(width) + 0.5);
  for (size_t i = 0; i < std::min(filled, width); ++i) bar += "█";
  return bar;
}

}  // namespace

std::string FindingHead(const v1::Assessment& assessment, const Terminal& terminal) {
  std::string out;
  if (assessment.findings().empty()) return out;
  AddOne(assessment.findings(0), terminal, &out);
  if (assessment.findings_size() > 1) {
    StrAppend(&out, "  and ", common::Counted(assessment.findings_size() - 1, "more finding"),
              " below\n");
  }
  return out + "\n";
}

std::string FindingLines(const v1::Assessment& assessment, const Terminal& terminal) {
  std::string out;
  for (const v1::Finding& finding : assessment.findings()) AddOne(finding, terminal, &out);
  return out;
}

std::string FindingList(const v1::Assessment& assessment, const Terminal& terminal) {
  std::string out;
  for (const v1::Finding& finding : assessment.findings()) {
    AddOne(finding, terminal, &out);
    std::string numbers;
    for (const v1::FindingNumber& number : finding.evidence()) {
      StrAppend(&numbers, numbers.empty() ? "" : ", ", NumberText(number));
    }
    if (finding.wasted_device_us() > 0) {
      StrAppend(&numbers, numbers.empty() ? "" : ", ", "wasted ",
                DeviceTime(finding.wasted_device_us()), " of device time");
    }
    StrAppend(&out, "  [", common::Printable(finding.code()), "] ",
              WrappedText(numbers, finding.code().size() + 5, terminal), "\n");
  }
  return out;
}

std::string DeviceTime(int64_t device_us) { return Took(device_us / kUsPerMs); }

std::string EtaText(int64_t eta_ms) {
  return StrCat("about ", common::HumanDuration(std::max<int64_t>(1'000, eta_ms / 1000 * 1000)));
}

std::string GoodputText(const v1::Ledger& ledger) {
  if (!ledger.has_goodput()) return "";
  return absl::StrFormat("%.1f %% of its device time", ledger.goodput() * 100);
}

std::string LedgerText(const v1::Ledger& ledger, const Terminal& terminal) {
  const double total = std::max<double>(1, static_cast<double>(ledger.total_us()));
  const std::pair<const char*, int64_t> rows[] = {
      {"queue", ledger.queue_us()},
      {"start", ledger.start_us()},
      {"data", ledger.data_us()},
      {"compute", ledger.compute_us()},
      {"communication", ledger.communication_us()},
      {"checkpoint", ledger.checkpoint_us()},
      {"restarts", ledger.restart_us()},
      {"repeated steps", ledger.repeated_us()},
      {"idle devices", ledger.idle_us()},
      {"unknown", ledger.unknown_us()},
  };
  std::string out = StrCat("Device time: ", DeviceTime(ledger.total_us()), " (",
                           common::Counted(ledger.devices(), "device"), ", ",
                           Took(ledger.wall_us() / kUsPerMs), " since it was submitted)\n");
  for (const auto& [name, us] : rows) {
    const double share = static_cast<double>(us) / total;
    const std::string line =
        absl::StrFormat("  %-15s %10s  %5.1f %%  ", name, DeviceTime(us), share * 100);
    out += line;
    if (terminal.out_is_tty) out += Bar(share, kBarWidth);
    while (out.back() == ' ') out.pop_back();
    out += "\n";
  }
  if (ledger.has_goodput()) {
    StrAppend(&out, "Goodput: ", GoodputText(ledger), " computed steps that count\n");
  } else {
    out += "Goodput: unknown, because the trainer reports no step times (\"time/step\")\n";
  }
  for (const v1::LedgerBlame& blame : ledger.blames()) {
    StrAppend(&out, "Lost to ", common::Printable(blame.who()), ": ", DeviceTime(blame.us()), " (",
              common::Printable(blame.what()), ")\n");
  }
  if (!ledger.newest_cause().empty()) {
    const std::string cause = StrCat("Newest failure: ", common::Printable(ledger.newest_cause()));
    StrAppend(&out, WrappedText(cause, 16, terminal), "\n");
  }
  return out;
}

}  // namespace muster::client
