#include "compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/numbers.h"
#include "common/base/status.h"
#include "common/loss_name.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::compare {
namespace {

using common::StrCat;

constexpr size_t kNamesShown = 12;

bool Has(const ComparedRun& run, const std::string& name) {
  return std::binary_search(run.names.begin(), run.names.end(), name);
}

std::string ListOf(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < kNamesShown; ++i) {
    common::StrAppend(&out, i == 0 ? "" : ", ", names[i]);
  }
  if (names.size() > kNamesShown) out += ", …";
  return out.empty() ? "none" : out;
}

absl::Status NoMetric(const ComparedRun& run, const std::string& key) {
  std::vector<std::string_view> names(run.names.begin(), run.names.end());
  return common::MakeProblem(absl::StatusCode::kNotFound,
                             {.code = "JC1503",
                              .what = StrCat(run.name, " has no metric \"", key, "\"",
                                             common::DidYouMean(common::Nearest(key, names))),
                              .fix = StrCat("its metrics: ", ListOf(run.names))});
}

// Adds the metrics that a pattern matches and all runs have. `told`: names that are in `left_out`
// already.
absl::Status AddMatches(const std::string& pattern, const std::vector<ComparedRun>& runs,
                        std::set<std::string>* chosen, std::set<std::string>* told,
                        std::vector<std::string>* left_out) {
  const size_t before = chosen->size();
  for (const ComparedRun& run : runs) {
    for (const std::string& name : run.names) {
      if (!MatchesKey(name, pattern)) continue;
      const bool is_common = std::all_of(
          runs.begin(), runs.end(), [&](const ComparedRun& other) { return Has(other, name); });
      if (is_common) {
        chosen->insert(name);
      } else if (told->insert(name).second) {
        left_out->push_back(name);
      }
    }
  }
  if (chosen->size() > before) return absl::OkStatus();
  const bool known = std::any_of(chosen->begin(), chosen->end(), [&](const std::string& name) {
    return MatchesKey(name, pattern);
  });
  return known ? absl::OkStatus() : NoMetric(runs.front(), pattern);
}

// Null: there is none.
const Series* EpochMetricIn(const ComparedRun& run, const std::string& key) {
  return run.Find(EpochMetricOf(key, run.names));
}

Epochs EpochsOf(const std::string& key, const ComparedRun& run, int64_t steps_per_epoch) {
  if (steps_per_epoch > 0) return Epochs::OfSteps(steps_per_epoch);
  const Series* metric = EpochMetricIn(run, key);
  return metric == nullptr ? Epochs() : Epochs::OfMetric(*metric);
}

absl::Status UnknownEpochs(const ComparedRun& run, const std::string& key) {
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1542",
       .what = StrCat("the epochs of ", run.name,
                      " are unknown: it has no metric \"epoch\" next to ", key),
       .fix = "--by step; --steps-per-epoch N (1 if it logs once per epoch); or log a metric "
              "\"epoch\" at the same steps"});
}

absl::Status NothingInCommon(const Comparison& pair, By by) {
  const auto range = [](std::span<const Point> points) {
    return points.empty() ? std::string("none")
                          : StrCat(points.front().step, " to ", points.back().step);
  };
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1541",
       .what = StrCat(pair.key, " has no ", NameOf(by), " in common: ", pair.baseline_name, " has ",
                      range(pair.baseline), ", ", pair.run_name, " has ", range(pair.run)),
       .fix = by == By::kStep ? "--by epoch compares runs that log at different steps"
                              : "check --steps-per-epoch; --by step compares step by step"});
}

// The loss that all runs have.
absl::StatusOr<std::vector<std::string>> LossOfAll(const std::vector<ComparedRun>& runs) {
  std::vector<std::string> names = runs.front().names;
  const std::string first = common::LossOf(names);
  std::erase_if(names, [&](const std::string& name) {
    return std::any_of(runs.begin(), runs.end(),
                       [&](const ComparedRun& run) { return !Has(run, name); });
  });
  const std::string common_loss = common::LossOf(names);
  if (!common_loss.empty()) return std::vector<std::string>{common_loss};
  const auto lacks = std::find_if(runs.begin(), runs.end(),
                                  [&](const ComparedRun& run) { return !Has(run, first); });
  return NoMetric(*lacks, first.empty() ? "loss" : first);
}

}  // namespace

std::string_view NameOf(By by) { return by == By::kStep ? "step" : "epoch"; }

absl::StatusOr<std::vector<std::string>> KeysOf(const std::vector<std::string>& keys,
                                                const std::vector<ComparedRun>& runs,
                                                std::vector<std::string>* left_out) {
  if (keys.empty()) return LossOfAll(runs);
  std::set<std::string> chosen, told;
  for (const std::string& key : keys) {
    const bool is_name = std::any_of(runs.begin(), runs.end(),
                                     [&](const ComparedRun& run) { return Has(run, key); }) ||
                         key.find_first_of("*?[") == std::string::npos;
    if (!is_name) {
      RETURN_IF_ERROR(AddMatches(key, runs, &chosen, &told, left_out));
      continue;
    }
    for (const ComparedRun& run : runs) {
      if (!Has(run, key)) return NoMetric(run, key);
    }
    chosen.insert(key);
  }
  return std::vector<std::string>(chosen.begin(), chosen.end());
}

By DefaultBy(const std::vector<std::string>& keys, const std::vector<ComparedRun>& runs,
             int64_t steps_per_epoch) {
  if (steps_per_epoch > 0) return By::kEpoch;
  const bool are_known = std::all_of(runs.begin(), runs.end(), [&](const ComparedRun& run) {
    return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) {
      const Series* metric = EpochMetricIn(run, key);
      return metric != nullptr && TellsEpochs(*metric);
    });
  });
  return are_known ? By::kEpoch : By::kStep;
}

absl::StatusOr<Comparison> CompareRuns(const std::string& key, const ComparedRun& baseline,
                                       const ComparedRun& run, const ComparisonSetup& setup) {
  Comparison pair{.key = key, .baseline_name = baseline.name, .run_name = run.name};
  const auto points_of = [&key](const ComparedRun& of) -> std::span<const Point> {
    const Series* series = of.Find(key);
    if (series == nullptr) return {};
    return series->points();
  };
  pair.baseline = points_of(baseline);
  pair.run = points_of(run);
  if (setup.by == By::kEpoch) {
    const Epochs of_baseline = EpochsOf(key, baseline, setup.steps_per_epoch);
    const Epochs of_run = EpochsOf(key, run, setup.steps_per_epoch);
    if (!of_baseline.known()) return UnknownEpochs(baseline, key);
    if (!of_run.known()) return UnknownEpochs(run, key);
    pair.first_step_past = Compare(pair.baseline, pair.run, setup.limit).first_past;
    pair.means[0] = of_baseline.Means(pair.baseline);
    pair.means[1] = of_run.Means(pair.run);
    pair.baseline = pair.means[0];
    pair.run = pair.means[1];
  }
  pair.differences = Compare(pair.baseline, pair.run, setup.limit);
  if (setup.by == By::kStep) pair.first_step_past = pair.differences.first_past;
  if (pair.differences.compared == 0) return NothingInCommon(pair, setup.by);
  return pair;
}

absl::StatusOr<double> ParseTolerance(std::string_view text) {
  const bool percent = text.ends_with('%');
  double value = 0;
  const std::string_view digits = text.substr(0, text.size() - (percent ? 1 : 0));
  if (!absl::SimpleAtod(common::ToAbsl(digits), &value) || !std::isfinite(value) || value < 0) {
    return absl::InvalidArgumentError("not a number of at least 0");
  }
  return percent ? value / 100 : value;
}

}  // namespace muster::compare
