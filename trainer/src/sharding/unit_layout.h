// Which parameters form a unit, and their offsets in it.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "muster/sharding/model_sharding.h"

namespace muster {

// Parameters and chunks begin at multiples of this many elements. No vector register holds more, so
// an optimizer's kernel treats an element of a shard (in the vector loop or in its remainder) as it
// would in the unsharded parameter: the results are bit-equal.
inline constexpr int64_t kAlignment = 16;

struct UnitParameter {
  at::Tensor tensor;               // the module's own
  std::vector<std::string> names;  // in the module; several if the weight is tied
  int64_t offset = 0;              // in the unit, in elements
  int64_t numel() const { return tensor.numel(); }
};

struct UnitLayout {
  std::string name;      // of the module, or "root"
  bool is_root = false;  // unsharded from the first forward to the end of backward
  std::vector<UnitParameter> parameters;
  int64_t numel = 0;   // of the parameters
  int64_t end = 0;     // of the last one
  int64_t padded = 0;  // the chunks of all ranks

  int64_t chunk(int ranks) const { return padded / ranks; }
};

// The units in the order of their first parameters in the module; every parameter is in exactly
// one.
// A unit has one dtype. Throws std::invalid_argument for a module name
// that does not exist, and for parameters that are not floating point or not contiguous.
std::vector<UnitLayout> plan_units(torch::nn::Module& module, const ShardingOptions& options,
                                   int ranks);

// The part of [offset, offset + numel) that is in chunk `rank`: [begin, begin + count), relative to
// offset.
struct ChunkRange {
  int64_t begin = 0, count = 0;
};
ChunkRange range_in_chunk(int64_t offset, int64_t numel, int64_t chunk, int rank);

}  // namespace muster
