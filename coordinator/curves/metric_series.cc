#include "coordinator/curves/metric_series.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace muster::coordinator {

void MetricSeries::Add(const v1::MetricPoint& point) {
  const double value = point.value();
  if (summary_.count() == 0) {
    summary_.set_first(value);
    summary_.set_min(value);
    summary_.set_max(value);
  }
  summary_.set_count(summary_.count() + 1);
  summary_.set_last(value);
  summary_.set_min(std::min(summary_.min(), value));
  summary_.set_max(std::max(summary_.max(), value));
  summary_.set_last_step(point.step());
  kept_[point.step() >> shift_] = value;
  while (kept_.size() > kKeptMax) Thin();
}

void MetricSeries::Thin() {
  ++shift_;
  std::map<int64_t, double> fewer;
  // Ascending, so that the later of two merged values wins.
  for (const auto& [step, value] : kept_) fewer[step >> 1] = value;
  kept_.swap(fewer);
}

v1::MetricSummary MetricSeries::Summary() const {
  v1::MetricSummary summary = summary_;
  std::vector<double> values;
  for (const auto& [step, value] : kept_) values.push_back(value);
  const size_t count = std::min(values.size(), kSparkValues);
  for (size_t i = 0; i < count; ++i) {
    summary.add_spark(values[count == 1 ? 0 : i * (values.size() - 1) / (count - 1)]);
  }
  return summary;
}

}  // namespace muster::coordinator
