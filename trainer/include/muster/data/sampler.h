// Which samples a rank reads, and in what order.
//
// The order of an epoch is a pure function of (seed, epoch): a keyed permutation, so no index array
// is stored and any position is computed in O(1). The position in the data is (seed, epoch, samples
// consumed by all ranks together). It does not depend on ranks, so a run can resume at exactly the
// next sample with a different world size. Not thread-safe: one thread owns a sampler. No torch, no
// I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace muster {

// A bijection of [0, size) selected by a key: a balanced Feistel network over the next even number
// of bits, with cycle walking for values outside the range (at most 4 steps on average). Source:
// Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002.
class KeyedPermutation {
 public:
  // size >= 0. Equal (size, key) give equal permutations on every machine.
  KeyedPermutation(int64_t size, uint64_t key);

  // The image of index; 0 <= index < size, else std::out_of_range.
  int64_t operator()(int64_t index) const;

 private:
  uint64_t encrypt(uint64_t value) const;

  uint64_t size_;
  int half_bits_;
  uint64_t half_mask_;
  uint64_t keys_[6];
};

// What happens to the samples at the end of an epoch that do not fill a batch on every rank.
enum class LastBatch {
  wrap,  // every rank gets an equal, smaller batch, padded with samples from the epoch's start
  drop,  // they are dropped in this epoch (a different order drops different ones)
};

struct ShardedSamplerOptions {
  int64_t dataset_size = 0;  // samples; at least 1
  int64_t batch_size = 1;    // samples per rank and step; at least 1
  uint64_t seed = 0;
  bool shuffle = true;  // false: dataset order in every epoch
  LastBatch last_batch = LastBatch::wrap;
  // Filled in by Accelerator::prepare.
  int rank = 0;
  int world_size = 1;
};

// A position in the data; equal on all ranks between steps.
struct DataPosition {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t consumed = 0;  // samples of this epoch taken by all ranks together
  bool operator==(const DataPosition&) const = default;
};

class ShardedSampler {
 public:
  // Throws std::invalid_argument naming the option that is out of range.
  explicit ShardedSampler(const ShardedSamplerOptions& options);

  // The dataset indices of this rank's next batch; all ranks get the same number. Each step takes
  // batch_size * world_size samples, and rank r gets the r-th run of batch_size. Returns nullopt
  // once at the end of each epoch; the sampler is then at the start of the next one.
  std::optional<std::vector<int64_t>> next_batch();

  // Steps per epoch from its start.
  int64_t batches_per_epoch() const;

  int64_t epoch() const { return position_.epoch; }
  DataPosition position() const { return position_; }

  // Continues at a saved position, possibly with a different batch size or world size. Throws
  // std::invalid_argument when it lies outside the dataset.
  void set_position(const DataPosition& position);

  // Sets the rank and world size. Throws std::invalid_argument if rank is out of range.
  void set_shard(int rank, int world_size);

  const ShardedSamplerOptions& options() const { return options_; }

 private:
  int64_t index_at(int64_t offset) const;
  void rekey();

  ShardedSamplerOptions options_;
  DataPosition position_;
  KeyedPermutation permutation_;
};

// The half-open range [first, second) of `size` items that belongs to a rank if they are split into
// contiguous runs that differ in length by at most one. For evaluation, where no sample may count
// twice.
std::pair<int64_t, int64_t> shard_range(int64_t size, int rank, int world_size);

}  // namespace muster
