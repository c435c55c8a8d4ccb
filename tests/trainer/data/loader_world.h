// The loaders of all ranks in one process, and what their loops see.
#pragma once

#include <muster/data/data_loader.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace muster {

// Sample i is the number i.
struct Numbers {
  int64_t count = 0;
  int64_t size() const { return count; }
  int64_t get(int64_t index) const { return index; }
};

// The numbers below count, in order.
struct NumberStream {
  int64_t count = 0;
  int64_t next_number = 0;
  void reset(int64_t) { next_number = 0; }
  std::optional<int64_t> next() {
    if (next_number == count) return std::nullopt;
    return next_number++;
  }
};

inline std::vector<int64_t> list(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel()};
}

// What the loop can query while it processes a batch.
struct Seen {
  std::vector<int64_t> batch;
  DataPosition position;
  int64_t remainder = -1;
  int64_t batches_left = 0;
  bool last = false;
};

template <typename Loader>
Seen look(const Loader& loader, const at::Tensor& batch) {
  return {list(batch), loader.position(), loader.remainder(), loader.batches_left(),
          loader.end_of_dataloader()};
}

// One pass.
template <typename Loader>
std::vector<Seen> run(const Loader& loader) {
  std::vector<Seen> seen;
  for (auto& batch : loader) seen.push_back(look(loader, batch));
  return seen;
}

// One loader per rank.
template <typename Dataset>
std::vector<DataLoader<Dataset>> world_of(const Dataset& dataset, const DataLoaderOptions& options,
                                          int world_size,
                                          const DataLoaderConfiguration& configuration = {}) {
  std::vector<DataLoader<Dataset>> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    ranks.emplace_back(dataset, options);
    ranks.back().core()->attach(
        {.rank = rank, .world_size = world_size, .configuration = configuration});
  }
  return ranks;
}

// The real samples of a pass over all ranks, step by step: what gather_for_metrics keeps.
template <typename Dataset>
std::vector<std::vector<int64_t>> global_steps(const std::vector<DataLoader<Dataset>>& ranks) {
  std::vector<std::vector<int64_t>> steps;
  std::vector<int64_t> remainders;
  for (const auto& loader : ranks) {
    size_t step = 0;
    for (const Seen& seen : run(loader)) {
      if (step == steps.size()) {
        steps.emplace_back();
        remainders.push_back(seen.remainder);
      }
      steps[step].insert(steps[step].end(), seen.batch.begin(), seen.batch.end());
      ++step;
    }
  }
  for (size_t step = 0; step < steps.size(); ++step) {
    if (remainders[step] >= 0) steps[step].resize(static_cast<size_t>(remainders[step]));
  }
  return steps;
}

inline std::vector<int64_t> joined(const std::vector<std::vector<int64_t>>& steps) {
  std::vector<int64_t> all;
  for (const auto& step : steps) all.insert(all.end(), step.begin(), step.end());
  return all;
}

// The numbers below n.
inline std::vector<int64_t> range(int64_t n) {
  std::vector<int64_t> numbers(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) numbers[static_cast<size_t>(i)] = i;
  return numbers;
}

// Every way to split the end of an epoch without dropping samples.
inline std::vector<DataLoaderConfiguration> complete_configurations() {
  std::vector<DataLoaderConfiguration> all;
  for (const bool even : {true, false}) {
    for (const bool accelerate : {false, true}) {
      all.push_back(
          {.dispatch_batches = false, .even_batches = even, .accelerate_last_step = accelerate});
    }
  }
  return all;
}

}  // namespace muster
