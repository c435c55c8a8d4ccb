// Computes the ranks' shares; see sharding.h.
#include "muster/data/sharding.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace muster {

ShardRule::ShardRule(const ShardRuleOptions& options) : options_(options) {
  const std::string batch_size = std::to_string(options.batch_size);
  const std::string world_size = std::to_string(options.world_size);
  if (options.batch_size < 1) {
    throw std::invalid_argument("batch_size is " + batch_size + ", but must be at least 1");
  }
  if (options.world_size < 1) {
    throw std::invalid_argument("world_size is " + world_size + ", but must be at least 1");
  }
  if (options.split_batches && options.batch_size % options.world_size != 0) {
    throw std::invalid_argument("with split_batches the batch_size (" + batch_size +
                                ") must be a multiple of the number of ranks (" + world_size +
                                "): change batch_size, or set split_batches to false if it is "
                                "per rank");
  }
  rank_batch_size_ =
      options.split_batches ? options.batch_size / options.world_size : options.batch_size;
}

StepShare ShardRule::share(int64_t taken, int rank) const {
  const int64_t world_size = options_.world_size;
  const int64_t begin = rank_batch_size_ * rank;
  if (taken == step_size()) return {begin, rank_batch_size_};
  if (options_.drop_last) return {};
  if (world_size == 1) return {0, taken};
  if (options_.accelerate_last_step) {
    if (options_.even_batches) return {begin, rank_batch_size_};
    return {std::min(begin, taken), std::clamp<int64_t>(taken - begin, 0, rank_batch_size_)};
  }
  if (options_.even_batches) {
    const int64_t count = (taken + world_size - 1) / world_size;
    return {count * rank, count};
  }
  const int64_t least = taken / world_size;
  const int64_t longer = taken % world_size;  // ranks that get one more
  return {least * rank + std::min<int64_t>(rank, longer), least + (rank < longer ? 1 : 0)};
}

int64_t ShardRule::batches(int64_t samples, int rank) const {
  const int64_t rest = samples % step_size();
  return samples / step_size() + (rest > 0 && share(rest, rank).count > 0 ? 1 : 0);
}

int64_t ShardRule::fill_max() const {
  if (options_.drop_last || !options_.even_batches || options_.world_size == 1) return 0;
  return options_.accelerate_last_step ? step_size() - 1 : options_.world_size - 1;
}

}  // namespace muster
