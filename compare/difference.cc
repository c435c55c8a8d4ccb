#include "compare/difference.h"

#include <cmath>
#include <limits>

namespace muster::compare {
namespace {

bool IsFinite(const Row& row) { return std::isfinite(row.baseline) && std::isfinite(row.value); }

bool IsPast(const Row& row, const Limit& limit) {
  if (!IsFinite(row)) return true;
  if (!limit.given) return false;
  // An infinite difference of two finite values is past any limit.
  return !std::isfinite(row.abs) || row.abs > limit.atol + limit.rtol * std::abs(row.baseline);
}

class Tally {
 public:
  void Add(const Row& row) {
    ++result_.compared;
    if (row.past) {
      ++result_.past;
      if (!result_.first_past) result_.first_past = row;
    }
    if (!IsFinite(row)) {
      ++result_.not_finite;
      return;
    }
    abs_sum_ += row.abs;
    if (!result_.largest_abs || row.abs > result_.largest_abs->abs) result_.largest_abs = row;
    if (std::isinf(row.rel)) {
      ++result_.zero_baseline;
      return;
    }
    rel_sum_ += row.rel;
    if (!result_.largest_rel || row.rel > result_.largest_rel->rel) result_.largest_rel = row;
  }

  Differences Finish(uint64_t only_baseline, uint64_t only_run) {
    result_.only_baseline = only_baseline;
    result_.only_run = only_run;
    const uint64_t finite = result_.compared - result_.not_finite;
    const uint64_t relative = finite - result_.zero_baseline;
    if (finite > 0) result_.mean_abs = abs_sum_ / static_cast<double>(finite);
    if (relative > 0) result_.mean_rel = rel_sum_ / static_cast<double>(relative);
    return result_;
  }

 private:
  Differences result_;
  double abs_sum_ = 0;
  double rel_sum_ = 0;
};

}  // namespace

Row MakeRow(int64_t at, double baseline, double value, const Limit& limit) {
  Row row{.at = at, .baseline = baseline, .value = value};
  row.abs = std::abs(value - baseline);
  if (baseline != 0) {
    row.rel = row.abs / std::abs(baseline);
  } else {
    row.rel = row.abs == 0 ? 0 : std::numeric_limits<double>::infinity();
  }
  row.past = IsPast(row, limit);
  return row;
}

Differences Compare(std::span<const Point> baseline, std::span<const Point> run, const Limit& limit,
                    const std::function<void(const Row&)>& on_row) {
  Tally tally;
  uint64_t only_baseline = 0, only_run = 0;
  size_t i = 0, j = 0;
  while (i < baseline.size() && j < run.size()) {
    if (baseline[i].step < run[j].step) {
      ++only_baseline;
      ++i;
    } else if (run[j].step < baseline[i].step) {
      ++only_run;
      ++j;
    } else {
      const Row row = MakeRow(baseline[i].step, baseline[i].value, run[j].value, limit);
      tally.Add(row);
      if (on_row) on_row(row);
      ++i;
      ++j;
    }
  }
  only_baseline += baseline.size() - i;
  only_run += run.size() - j;
  return tally.Finish(only_baseline, only_run);
}

}  // namespace muster::compare
