// Compares one metric of a run with the baseline's: which points correspond, and how they differ.
// Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compare/difference.h"
#include "compare/epochs.h"
#include "compare/run.h"

namespace muster::compare {

enum class By { kStep, kEpoch };
// "step", "epoch".
std::string_view NameOf(By by);

struct ComparisonSetup {
  By by = By::kStep;
  int64_t steps_per_epoch = 0;  // 0: a metric defines the epochs
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
  // The first step that both have where the values differ by more than the limit, also by epoch.
  std::optional<Row> first_step_past;
};

// The metrics to compare, from --key, sorted; no key: the loss of all runs (common/loss_name.h). A
// name must be in every run; a pattern selects the matches that all runs have, and matches that only
// some have go to `left_out`. Errors: JC1503, NOT_FOUND.
absl::StatusOr<std::vector<std::string>> KeysOf(const std::vector<std::string>& keys,
                                                const std::vector<ComparedRun>& runs,
                                                std::vector<std::string>* left_out);

// What to compare by unless it is given: by epoch if the epochs of all keys in all runs are known,
// otherwise by step.
By DefaultBy(const std::vector<std::string>& keys, const std::vector<ComparedRun>& runs,
             int64_t steps_per_epoch);

// The runs must outlive the result. Errors: JC1541 if there is nothing in common, JC1542 if the
// epochs are not known.
absl::StatusOr<Comparison> CompareRuns(const std::string& key, const ComparedRun& baseline,
                                       const ComparedRun& run, const ComparisonSetup& setup);

// "0.0483%", "2e-3". INVALID_ARGUMENT, without a code, unless it is finite and not negative.
absl::StatusOr<double> ParseTolerance(std::string_view text);

}  // namespace muster::compare
