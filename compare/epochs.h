// Determines which epoch a step belongs to. Jobs do not declare epochs; they come from the number
// of steps that the user gives, or from a metric named "epoch" that the trainer logs next to the
// others, as Lightning and Hugging Face's Trainer do. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compare/series.h"

namespace muster::compare {

class Epochs {
 public:
  // A step is the number of completed steps: 1 to N are epoch 1, and so is 0.
  static Epochs OfSteps(int64_t steps_per_epoch);
  // From a metric's points. A fraction belongs to the epoch it completes: 0.5 and 1.0 are epoch 1.
  // A step without a point belongs to the epoch of the next point, as a trainer that logs "epoch"
  // once logs it at the end of each; steps after the last point are one more epoch. `metric` is
  // finished.
  static Epochs OfMetric(const Series& metric);

  // False if the metric has no usable point.
  bool known() const { return steps_per_epoch_ > 0 || !ends_.empty(); }
  int64_t At(int64_t step) const;
  // One point for each epoch: the mean of the values in it.
  std::vector<Point> Means(std::span<const Point> points) const;

 private:
  int64_t steps_per_epoch_ = 0;
  std::vector<Point> ends_;  // the last step of each epoch, and the epoch
};

// Whether OfMetric would find any epoch.
bool TellsEpochs(const Series& metric);
bool IsEpochMetric(std::string_view name);
// The metric among `names`, which are sorted, that defines the epochs of `key`: its neighbor
// ("train/epoch" of "train/loss"), "epoch", or the first other metric of this kind. Empty: none.
std::string EpochMetricOf(std::string_view key, std::span<const std::string> names);

}  // namespace muster::compare
