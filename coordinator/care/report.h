// Output of the care commands: findings and totals in 80 columns, and progress on a terminal. One
// thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "coordinator/base/damage.h"

namespace muster::coordinator {

inline constexpr size_t kColumns = 80;

// Wraps at spaces so that no line is longer than kColumns. The first line is indented by `first`
// spaces, later ones by `later`. Words are never broken, so that a path can be copied.
std::string Wrap(std::string_view text, size_t first = 0, size_t later = 0);

// "PATH: what", then "  fix: …".
std::string FindingText(const Damage& finding);

// One line on stderr, updated in place. Prints nothing if stderr is not a terminal.
class Progress {
 public:
  explicit Progress(std::string verb);
  ~Progress() { Clear(); }
  void Add(uint64_t bytes);
  // Erases the line; call it before other output.
  void Clear();

 private:
  const std::string verb_;
  const bool is_terminal_;
  bool is_shown_ = false;
  uint64_t bytes_ = 0;
  std::chrono::steady_clock::time_point next_{};
};

// Prints findings without disturbing the progress line, and counts them.
class PrintedFindings {
 public:
  explicit PrintedFindings(Progress& progress) : progress_(progress) {}
  OnDamage Printer();
  uint64_t Count() const { return count_; }

 private:
  Progress& progress_;
  uint64_t count_ = 0;
};

// The exit status of a command that copies; reports that the copy lacks what the findings name.
int LeftOutExit(const PrintedFindings& findings);

// Prints a line on stdout.
void Print(const std::string& text);
// Flushes stdout, prints the error on stderr and returns its exit status.
int FailedExit(const absl::Status& status);

}  // namespace muster::coordinator
