// Compares two series at the steps that both have. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "compare/series.h"

namespace muster::compare {

// |value - baseline| <= atol + rtol * |baseline|, as numpy.isclose; a value that is NaN or infinite
// is always past it. Without a limit only those are.
struct Limit {
  bool given = false;
  double rtol = 0;
  double atol = 0;
};

struct Row {
  int64_t at = 0;  // step or epoch
  double baseline = 0;
  double value = 0;
  double abs = 0;  // |value - baseline|
  double rel = 0;  // abs / |baseline|; 0 if both are 0, infinite if only the baseline is
  bool past = false;
};
Row MakeRow(int64_t at, double baseline, double value, const Limit& limit);

struct Differences {
  uint64_t compared = 0;
  uint64_t only_baseline = 0;  // left out: the other has no such step
  uint64_t only_run = 0;
  uint64_t past = 0;
  uint64_t not_finite = 0;     // rows with a NaN or infinite value; in no mean and no maximum
  uint64_t zero_baseline = 0;  // rows without a relative difference; in no mean or maximum of it
  double mean_abs = 0;
  double mean_rel = 0;
  std::optional<Row> largest_abs;
  std::optional<Row> largest_rel;
  std::optional<Row> first_past;

  bool passes() const { return compared > 0 && past == 0; }
};

// Both are in order of step, each step once. `on_row`, if set, gets every row in that order.
Differences Compare(std::span<const Point> baseline, std::span<const Point> run, const Limit& limit,
                    const std::function<void(const Row&)>& on_row = nullptr);

}  // namespace muster::compare
