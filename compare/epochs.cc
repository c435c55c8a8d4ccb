#include "compare/epochs.h"

#include <algorithm>
#include <cmath>

namespace muster::compare {
namespace {

constexpr double kEpochMost = 1e15;  // exact as a double, also when rounded up
constexpr double kRounding = 1e-6;   // error of an epoch that was computed and stored as a float

bool IsUsable(const Point& point) {
  return std::isfinite(point.value) && std::abs(point.value) <= kEpochMost;
}

}  // namespace

Epochs Epochs::OfSteps(int64_t steps_per_epoch) {
  Epochs epochs;
  epochs.steps_per_epoch_ = steps_per_epoch;
  return epochs;
}

Epochs Epochs::OfMetric(const Series& metric) {
  Epochs epochs;
  for (const Point& point : metric.points()) {
    if (!IsUsable(point)) continue;
    const double epoch = std::ceil(point.value - kRounding);
    const bool same = !epochs.ends_.empty() && epochs.ends_.back().value == epoch;
    if (same) epochs.ends_.pop_back();
    epochs.ends_.push_back({point.step, epoch});
  }
  return epochs;
}

int64_t Epochs::At(int64_t step) const {
  if (steps_per_epoch_ > 0) return step <= 0 ? 1 : (step - 1) / steps_per_epoch_ + 1;
  const auto end =
      std::lower_bound(ends_.begin(), ends_.end(), step,
                       [](const Point& each, int64_t wanted) { return each.step < wanted; });
  return end != ends_.end() ? static_cast<int64_t>(end->value)
                            : static_cast<int64_t>(ends_.back().value) + 1;
}

std::vector<Point> Epochs::Means(std::span<const Point> points) const {
  std::vector<Point> of_epochs;
  of_epochs.reserve(points.size());
  for (const Point& point : points) of_epochs.push_back({At(point.step), point.value});
  std::stable_sort(of_epochs.begin(), of_epochs.end(),
                   [](const Point& a, const Point& b) { return a.step < b.step; });
  // Each mean overwrites the points that it was computed from.
  size_t means = 0;
  for (size_t next = 0; next < of_epochs.size();) {
    const size_t first = next;
    double sum = 0;
    for (; next < of_epochs.size() && of_epochs[next].step == of_epochs[first].step; ++next) {
      sum += of_epochs[next].value;
    }
    of_epochs[means++] = {of_epochs[first].step, sum / static_cast<double>(next - first)};
  }
  of_epochs.resize(means);
  return of_epochs;
}

bool TellsEpochs(const Series& metric) {
  return std::any_of(metric.points().begin(), metric.points().end(), IsUsable);
}

bool IsEpochMetric(std::string_view name) { return name == "epoch" || name.ends_with("/epoch"); }

std::string EpochMetricOf(std::string_view key, std::span<const std::string> names) {
  const std::string neighbor = std::string(key.substr(0, key.rfind('/') + 1)) + "epoch";
  for (const std::string& wanted : {neighbor, std::string("epoch")}) {
    if (std::binary_search(names.begin(), names.end(), wanted)) return wanted;
  }
  const auto other = std::find_if(names.begin(), names.end(), IsEpochMetric);
  return other == names.end() ? "" : *other;
}

}  // namespace muster::compare
