// Tensors of the whole run that no rank holds whole: what each rank gives of them to a checkpoint.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace muster {

// A rank's part of a tensor of the whole run: elements [begin, begin + values.numel()) of the
// row-major flattened tensor.
struct TensorShard {
  at::Tensor values;           // 1-D, contiguous, any device; 0-d or one element for shape {}
  std::vector<int64_t> shape;  // of the whole tensor
  int64_t begin = 0;
};

// By name. Each rank gives its own part of a tensor, in any order of ranks; the parts must not
// overlap and together cover the tensor. A part without elements may be left out, but a tensor
// that has none at all (shape {0, 3}) is saved only when some rank names it. Ranks that hold copies
// of parts that others give (replicas of hybrid sharding) give nothing.
using ShardMap = std::map<std::string, TensorShard>;

}  // namespace muster
