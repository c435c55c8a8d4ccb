// What the care commands print: findings and totals in 80 columns, and progress on a terminal. One
// thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "coordinator/finding.h"

namespace muster::coordinator {

inline constexpr size_t kColumns = 80;

// Breaks at blanks where a line would be longer than kColumns. The first line begins with `first`
// blanks, later ones with `later`. Words are never broken: a path can be copied.
std::string Wrap(std::string_view text, size_t first = 0, size_t later = 0);

// "PATH: what", then "  fix: …".
std::string FindingText(const Finding& finding);

// One line on stderr that is written over, when that is a terminal.
class Progress {
 public:
  explicit Progress(std::string verb);
  ~Progress() { Clear(); }
  void Add(uint64_t bytes);
  // Before other output.
  void Clear();

 private:
  const std::string verb_;
  const bool is_terminal_;
  bool is_shown_ = false;
  uint64_t bytes_ = 0;
  std::chrono::steady_clock::time_point next_{};
};

// Findings printed between the lines of a progress, and counted.
class PrintedFindings {
 public:
  explicit PrintedFindings(Progress& progress) : progress_(progress) {}
  Found Printer();
  uint64_t Count() const { return count_; }

 private:
  Progress& progress_;
  uint64_t count_ = 0;
};

// Of a copy: what the findings name is not in it.
int LeftOutExit(const PrintedFindings& findings);

// A line on stdout.
void Print(const std::string& text);
// Prints the error after what is on stdout; the exit status for it.
int FailedExit(const absl::Status& status);

}  // namespace muster::coordinator
