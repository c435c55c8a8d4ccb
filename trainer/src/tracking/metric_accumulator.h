// Means of metrics over steps and ranks, with one packed all-reduce every K steps.
//
//   MetricAccumulator means({.every = 10, .sum_over_ranks = …});
//   means.add("loss", loss, batch_size);      // each step, no wait for the device
//   for (auto& [name, mean] : means.end_step()) …;  // every tenth step: the weighted means
//
// Training thread only.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {

struct MetricAccumulatorOptions {
  int every = 1;  // steps per window
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kDouble;  // of the sums: one that sum_over_ranks supports there
  // Sums a 1-d tensor on `device` over all ranks, with the same result on each. Empty: one process.
  std::function<at::Tensor(at::Tensor)> sum_over_ranks;
  // All-gathers the ranks' texts, in rank order. Only called if the ranks' names differ.
  std::function<std::vector<std::string>(const std::string&)> gather_texts;
};

// A name with its mean: the sum of value * weight divided by the sum of weight, over the window and
// the ranks.
using MetricMeans = std::vector<std::pair<std::string, double>>;

class MetricAccumulator {
 public:
  explicit MetricAccumulator(MetricAccumulatorOptions options);

  // `value` has one element and is copied; on a device this costs two small kernels, on the host
  // none. weight: for example the samples in this rank's batch, so that batches of different sizes
  // are weighted correctly. Throws std::invalid_argument for more than one element.
  void add(std::string_view name, const at::Tensor& value, double weight = 1);
  void add(std::string_view name, double value, double weight = 1);

  // Counts a step; every `every` steps returns the means, otherwise nothing. Collective when it
  // reduces, so all ranks must count the same steps.
  MetricMeans end_step();
  // The means of the values added since the last reduction. Collective. Waits for the device. Names
  // that no rank has added since then are omitted; ranks may add different names.
  MetricMeans reduce();

 private:
  struct Series {
    std::string name;
    double sum = 0;         // of host values
    double weight = 0;      // of all values
    at::Tensor device_sum;  // of device values; undefined if there were none
  };

  Series& series_of(std::string_view name);
  std::string names_text() const;
  at::Tensor pack(size_t begin, size_t end, size_t header, size_t size) const;
  bool names_agree(const at::Tensor& packed) const;
  void agree_on_names();
  std::vector<double> sums_over_ranks();

  MetricAccumulatorOptions options_;
  at::ScalarType type_;
  int64_t steps_ = 0;
  std::vector<Series> series_;
};

}  // namespace muster
