// Sharded tensors in a checkpoint: what each rank contributes.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace muster {

// A rank's shard of a tensor of the whole run: elements [begin, begin + values.numel()) of the
// row-major flattened tensor.
struct TensorShard {
  at::Tensor values;           // 1-D, contiguous, any device; 0-d or one element for shape {}
  std::vector<int64_t> shape;  // of the whole tensor
  int64_t begin = 0;
};

// By name. Each rank contributes its own shard of a tensor, in any order of ranks; the shards must
// not overlap and must cover the tensor. A shard without elements may be omitted, but a tensor with
// no elements (shape {0, 3}) is saved only if some rank names it. Ranks that hold replicas of other
// ranks' shards (hybrid sharding) contribute nothing.
using ShardMap = std::map<std::string, TensorShard>;

}  // namespace muster
