// The keyed permutation and the sampler over it. Pure computation.
#include "muster/data/sampler.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "data/epoch_order.h"

namespace muster {
namespace {

// The finalizer of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", 2014): every input bit flips every output bit with probability close to one half.
uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

}  // namespace

uint64_t epoch_key(uint64_t seed, int64_t epoch) {
  return mix(mix(seed) ^ static_cast<uint64_t>(epoch));
}

uint64_t sample_random_seed(uint64_t seed, int64_t epoch, int64_t index) {
  // A different constant than epoch_key's, so that augmentation and order do not share random
  // numbers.
  return mix(mix(epoch_key(seed, epoch) ^ 0x5851f42d4c957f2dULL) ^ static_cast<uint64_t>(index));
}

EpochOrder EpochOrder::sequential(int64_t size) { return EpochOrder(size, false, 0); }

EpochOrder EpochOrder::shuffled(int64_t size, uint64_t seed, int64_t epoch) {
  return EpochOrder(size, true, epoch_key(seed, epoch));
}

EpochOrder EpochOrder::listed(std::shared_ptr<const std::vector<int64_t>> indices) {
  EpochOrder order(static_cast<int64_t>(indices->size()), false, 0);
  order.indices_ = std::move(indices);
  return order;
}

KeyedPermutation::KeyedPermutation(int64_t size, uint64_t key) : size_(size) {
  if (size < 0)
    throw std::invalid_argument("KeyedPermutation: size " + std::to_string(size) + " is negative");
  int bits = 2;
  while (bits < 62 && (uint64_t{1} << bits) < size_) bits += 2;
  if ((uint64_t{1} << bits) < size_) bits = 64;
  half_bits_ = bits / 2;
  half_mask_ = (uint64_t{1} << half_bits_) - 1;
  for (uint64_t& round_key : keys_) key = round_key = mix(key);
}

uint64_t KeyedPermutation::encrypt(uint64_t value) const {
  uint64_t left = value >> half_bits_;
  uint64_t right = value & half_mask_;
  for (const uint64_t round_key : keys_) {
    const uint64_t next = left ^ (mix(right ^ round_key) & half_mask_);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

int64_t KeyedPermutation::operator()(int64_t index) const {
  if (index < 0 || static_cast<uint64_t>(index) >= size_) {
    throw std::out_of_range("KeyedPermutation: index " + std::to_string(index) +
                            " is not below the size " + std::to_string(size_));
  }
  uint64_t value = static_cast<uint64_t>(index);
  do {
    value = encrypt(value);
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

ShardedSampler::ShardedSampler(const ShardedSamplerOptions& options)
    : options_(options), permutation_(0, 0) {
  if (options.dataset_size < 1) {
    throw std::invalid_argument("ShardedSampler: dataset_size is " +
                                std::to_string(options.dataset_size) + ", but must be at least 1");
  }
  if (options.batch_size < 1) {
    throw std::invalid_argument("ShardedSampler: batch_size is " +
                                std::to_string(options.batch_size) + ", but must be at least 1");
  }
  position_.seed = options.seed;
  set_shard(options.rank, options.world_size);
  rekey();
}

void ShardedSampler::set_shard(int rank, int world_size) {
  if (world_size < 1 || rank < 0 || rank >= world_size) {
    throw std::invalid_argument("ShardedSampler: rank " + std::to_string(rank) +
                                " does not exist in a world of " + std::to_string(world_size));
  }
  const int64_t global = options_.batch_size * world_size;
  if (options_.last_batch == LastBatch::drop && global > options_.dataset_size) {
    throw std::invalid_argument(
        "ShardedSampler: batch_size * world_size = " + std::to_string(global) +
        " is more than the " + std::to_string(options_.dataset_size) +
        " samples, and LastBatch::drop would leave no batch: use a smaller batch_size");
  }
  options_.rank = rank;
  options_.world_size = world_size;
}

void ShardedSampler::rekey() {
  permutation_ =
      KeyedPermutation(options_.dataset_size, epoch_key(position_.seed, position_.epoch));
}

int64_t ShardedSampler::index_at(int64_t offset) const {
  return options_.shuffle ? permutation_(offset) : offset;
}

int64_t ShardedSampler::batches_per_epoch() const {
  const int64_t global = options_.batch_size * options_.world_size;
  const int64_t full = options_.dataset_size / global;
  if (options_.last_batch == LastBatch::drop) return full;
  return full + (options_.dataset_size % global != 0 ? 1 : 0);
}

std::optional<std::vector<int64_t>> ShardedSampler::next_batch() {
  const int64_t left = options_.dataset_size - position_.consumed;
  const int64_t global = options_.batch_size * options_.world_size;
  if (left <= 0 || (left < global && options_.last_batch == LastBatch::drop)) {
    ++position_.epoch;
    position_.consumed = 0;
    rekey();
    return std::nullopt;
  }
  const int64_t taken = std::min(left, global);
  const int64_t per_rank = (taken + options_.world_size - 1) / options_.world_size;
  std::vector<int64_t> batch(per_rank);
  const int64_t first = position_.consumed + options_.rank * per_rank;
  for (int64_t i = 0; i < per_rank; ++i) {
    batch[i] = index_at((first + i) % options_.dataset_size);
  }
  position_.consumed += taken;
  return batch;
}

void ShardedSampler::set_position(const DataPosition& position) {
  if (position.epoch < 0 || position.consumed < 0 || position.consumed > options_.dataset_size) {
    throw std::invalid_argument(
        "ShardedSampler: position epoch " + std::to_string(position.epoch) + ", sample " +
        std::to_string(position.consumed) + " lies outside the dataset of " +
        std::to_string(options_.dataset_size) + " samples: is it from another dataset?");
  }
  position_ = position;
  rekey();
}

std::pair<int64_t, int64_t> shard_range(int64_t size, int rank, int world_size) {
  return {size * rank / world_size, size * (rank + 1) / world_size};
}

}  // namespace muster
