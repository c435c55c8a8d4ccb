// One metric of one run against the baseline's: which points are put side by side, and what follows.
// Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/compare/difference.h"
#include "client/compare/epochs.h"
#include "client/compare/run.h"

namespace muster::client {

enum class By { kStep, kEpoch };
// "step", "epoch".
std::string_view NameOf(By by);

struct ComparisonSetup {
  By by = By::kStep;
  int64_t steps_per_epoch = 0;  // 0: the epochs are told by a metric
  Limit limit;
};

struct Comparison {
  std::string key;
  std::string baseline_name;
  std::string run_name;
  std::span<const Point> baseline;  // of the runs, or of `means`
  std::span<const Point> run;
  std::vector<Point> means[2];  // by epoch: of the baseline, of the run
  Differences differences;
  // By epoch: the first step that both have where the values differ by more than the limit.
  std::optional<Row> first_step_past;
};

// The metrics to compare, from --key, sorted; no key: "loss". A name has to be in every run; a pattern
// stands for what matches it in all of them, and what only some have is added to `left_out`.
// Errors: JC1503, NOT_FOUND.
absl::StatusOr<std::vector<std::string>> KeysOf(const std::vector<std::string>& keys,
                                                const std::vector<ComparedRun>& runs,
                                                std::vector<std::string>* left_out);

// Whether the epochs of all keys in all runs are known.
bool KnowEpochs(const std::vector<std::string>& keys, const std::vector<ComparedRun>& runs,
                int64_t steps_per_epoch);

// The runs must outlive the result. Errors: JC1541 if there is nothing in common, JC1542 if the epochs
// are not known.
absl::StatusOr<Comparison> CompareRuns(const std::string& key, const ComparedRun& baseline,
                                       const ComparedRun& run, const ComparisonSetup& setup);

// "0.0483%", "2e-3"; INVALID_ARGUMENT, without a code, unless it is a finite number from 0 on.
absl::StatusOr<double> ParseTolerance(std::string_view text);

}  // namespace muster::client
