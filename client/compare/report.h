// Prints comparisons: rows as a table, JSON, JSON lines or CSV, and a summary. One thread.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "client/compare/configuration.h"
#include "client/terminal/terminal.h"
#include "compare/comparison.h"

namespace muster::client {

struct ReportOutput {
  std::string format;  // table, json, jsonl or csv
  Terminal terminal;
  std::function<void(std::string_view)> print;        // stdout
  std::function<void(const std::string& line)> note;  // stderr
};

// How one run's configuration differs from the baseline's.
struct RunDifference {
  std::string run;
  std::vector<ConfigurationDifference> fields;
};

class ComparisonReport {
 public:
  ComparisonReport(ReportOutput output, compare::ComparisonSetup setup)
      : output_(std::move(output)), setup_(setup) {}

  // `comparisons`: all of them, of one baseline. On a terminal the rows of a long table are thinned.
  absl::Status Print(std::span<const compare::Comparison> comparisons,
                     std::span<const RunDifference> configurations);

 private:
  absl::Status PrintTable(const compare::Comparison& pair);
  void PrintSummary(const compare::Comparison& pair);
  void PrintConfigurations(std::span<const RunDifference> configurations);
  void PrintJson(std::span<const compare::Comparison> comparisons,
                 std::span<const RunDifference> configurations);
  void PrintJsonLines(const compare::Comparison& pair);
  void PrintCsv(const compare::Comparison& pair);
  void Line(const std::string& text);

  const ReportOutput output_;
  const compare::ComparisonSetup setup_;
  bool several_keys_ = false;
  bool several_runs_ = false;
  bool headers_printed_ = false;
};

}  // namespace muster::client
