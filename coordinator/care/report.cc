#include "coordinator/care/report.h"

#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_split.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "coordinator/care/commands.h"

namespace muster::coordinator {
namespace {

constexpr size_t kIndent = 2;
constexpr std::chrono::milliseconds kShownEvery{200};

}  // namespace

std::string Wrap(std::string_view text, size_t first, size_t later) {
  std::string wrapped(first, ' ');
  size_t column = first;
  bool is_first_word = true;
  for (const absl::string_view word : absl::StrSplit(common::ToAbsl(text), ' ')) {
    if (!is_first_word && column + 1 + word.size() > kColumns) {
      wrapped += "\n" + std::string(later, ' ');
      column = later;
    } else if (!is_first_word) {
      wrapped += ' ';
      ++column;
    }
    is_first_word = false;
    common::StrAppend(&wrapped, word);
    column += word.size();
  }
  return wrapped;
}

std::string FindingText(const Damage& finding) {
  std::string text =
      Wrap(common::StrCat(common::Printable(finding.path), ": ", common::Printable(finding.what)),
           0, kIndent);
  if (!finding.fix.empty()) {
    common::StrAppend(
        &text, "\n",
        Wrap(common::StrCat("fix: ", common::Printable(finding.fix)), kIndent, 2 * kIndent));
  }
  return text;
}

Progress::Progress(std::string verb)
    : verb_(std::move(verb)), is_terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::Add(uint64_t bytes) {
  bytes_ += bytes;
  if (!is_terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kShownEvery;
  is_shown_ = true;
  std::fprintf(stderr, "\r\033[K%s %s", verb_.c_str(), common::HumanBytes(bytes_).c_str());
}

void Progress::Clear() {
  if (is_shown_) std::fputs("\r\033[K", stderr);
  is_shown_ = false;
}

OnDamage PrintedFindings::Printer() {
  return [this](const Damage& finding) {
    ++count_;
    progress_.Clear();
    Print(FindingText(finding));
  };
}

int LeftOutExit(const PrintedFindings& findings) {
  if (findings.Count() == 0) return kCleanExit;
  Print(common::StrCat(common::Counted(findings.Count(), "finding"),
                       ": what they name was left out"));
  return kFindingsExit;
}

void Print(const std::string& text) { std::printf("%s\n", text.c_str()); }

int FailedExit(const absl::Status& status) {
  std::fflush(stdout);
  std::fprintf(stderr, "muster-coordinator: %s\n", std::string(status.message()).c_str());
  return common::CodeOf(status) == "JC1604" ? kLockedExit : kNotDoneExit;
}

}  // namespace muster::coordinator
