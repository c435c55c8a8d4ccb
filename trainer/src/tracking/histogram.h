// Counts values into TensorBoard's default buckets. Pure.
#pragma once

#include <vector>

#include "muster/tracking/tracker.h"

namespace muster {

// The edges between the buckets: -1e-12 * 1.1^i, 0 and 1e-12 * 1.1^i up to 1e20, ascending; 1551 of
// them. Source: torch/utils/tensorboard/writer.py, _get_default_bins.
const std::vector<double>& default_histogram_edges();

class HistogramBuilder {
 public:
  HistogramBuilder();
  // Values beyond the last edges are counted in the outermost buckets.
  void add(double value);
  // Trimmed to the occupied buckets, with an empty one before them. Without finite values: one
  // empty bucket that ends at 0. Source: torch/utils/tensorboard/summary.py, make_histogram.
  HistogramData finish() &&;

 private:
  const std::vector<double>& edges_;
  std::vector<double> counts_;  // of edges_[i] <= value < edges_[i + 1]
  HistogramData data_;
};

}  // namespace muster
