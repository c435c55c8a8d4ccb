// TensorBoard's default buckets; see histogram.h.
#include "tracking/histogram.h"

#include <algorithm>
#include <cmath>

namespace muster {
namespace {

std::vector<double> make_edges() {
  std::vector<double> edges = {0};
  for (double edge = 1e-12; edge < 1e20; edge *= 1.1) {
    edges.push_back(edge);
    edges.push_back(-edge);
  }
  std::sort(edges.begin(), edges.end());
  return edges;
}

}  // namespace

const std::vector<double>& default_histogram_edges() {
  static const std::vector<double> kEdges = make_edges();
  return kEdges;
}

HistogramBuilder::HistogramBuilder()
    : edges_(default_histogram_edges()), counts_(edges_.size() - 1, 0.0) {}

void HistogramBuilder::add(double value) {
  if (!std::isfinite(value)) {
    ++data_.not_finite;
    return;
  }
  const auto above = std::upper_bound(edges_.begin(), edges_.end(), value) - edges_.begin();
  const auto last = static_cast<std::ptrdiff_t>(counts_.size()) - 1;
  counts_[static_cast<size_t>(std::clamp<std::ptrdiff_t>(above - 1, 0, last))] += 1;
  data_.min = data_.num == 0 ? value : std::min(data_.min, value);
  data_.max = data_.num == 0 ? value : std::max(data_.max, value);
  data_.num += 1;
  data_.sum += value;
  data_.sum_squares += value * value;
}

HistogramData HistogramBuilder::finish() && {
  const auto used = [](double count) { return count > 0; };
  const auto first = std::find_if(counts_.begin(), counts_.end(), used) - counts_.begin();
  if (data_.num == 0) {
    data_.bucket_limits = {0};
    data_.bucket_counts = {0};
    return std::move(data_);
  }
  const auto end = counts_.rend() - std::find_if(counts_.rbegin(), counts_.rend(), used);
  data_.bucket_counts = {0};
  data_.bucket_counts.insert(data_.bucket_counts.end(), counts_.begin() + first,
                             counts_.begin() + end);
  data_.bucket_limits.assign(edges_.begin() + first, edges_.begin() + end + 1);
  return std::move(data_);
}

}  // namespace muster
