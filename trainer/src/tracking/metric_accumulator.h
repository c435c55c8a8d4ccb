// Means of metrics over steps and ranks, with one packed reduction every K steps.
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
  int every = 1;  // steps a window
  at::Device device = at::kCPU;
  // Adds a 1-d tensor of `device` over all ranks, the same result on each. Empty: one process.
  std::function<at::Tensor(at::Tensor)> sum_over_ranks;
  // Gives each rank's text to all, in rank order. Only called when the ranks do not have the same
  // names.
  std::function<std::vector<std::string>(const std::string&)> gather_texts;
};

// A name with its mean: sum of value * weight over sum of weight, over the window and the ranks.
using MetricMeans = std::vector<std::pair<std::string, double>>;

class MetricAccumulator {
 public:
  explicit MetricAccumulator(MetricAccumulatorOptions options);

  // A tensor has one element and is copied; one on a device costs two small kernels, one on the
  // host none. weight: for example the samples of this rank's batch, so that batches of different
  // sizes count right. Throws std::invalid_argument for more than one element.
  void add(std::string_view name, const at::Tensor& value, double weight = 1);
  void add(std::string_view name, double value, double weight = 1);

  // Counts a step; every `every` of them the means, else nothing. Collective when it reduces, so
  // all ranks must count the same steps.
  MetricMeans end_step();
  // The means of what was added since the last reduction. Collective. Waits for the device. Names
  // that no rank has added since then are left out; ranks may add different names.
  MetricMeans reduce();

 private:
  struct Series {
    std::string name;
    double sum = 0;         // of what came from the host
    double weight = 0;      // of everything
    at::Tensor device_sum;  // of what came from the device; undefined when nothing did
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
