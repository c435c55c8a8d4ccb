// The order of one epoch's samples. No torch.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/data/sampler.h"

namespace muster {

// The key of an epoch's permutation, for both ShardedSampler and DataLoader.
uint64_t epoch_key(uint64_t seed, int64_t epoch);

// See loader_core.h.
uint64_t sample_random_seed(uint64_t seed, int64_t epoch, int64_t index);

// Immutable; any thread. Copies share large data.
class EpochOrder {
 public:
  static EpochOrder sequential(int64_t size);
  static EpochOrder shuffled(int64_t size, uint64_t seed, int64_t epoch);
  static EpochOrder listed(std::shared_ptr<const std::vector<int64_t>> indices);

  int64_t size() const { return size_; }
  // The dataset index of the sample at `place` in the epoch; 0 <= place < size.
  int64_t at(int64_t place) const {
    if (indices_) return (*indices_)[static_cast<size_t>(place)];
    return shuffle_ ? permutation_(place) : place;
  }

 private:
  EpochOrder(int64_t size, bool shuffle, uint64_t key)
      : size_(size), shuffle_(shuffle), permutation_(size, key) {}

  int64_t size_;
  bool shuffle_;
  KeyedPermutation permutation_;
  std::shared_ptr<const std::vector<int64_t>> indices_;
};

}  // namespace muster
