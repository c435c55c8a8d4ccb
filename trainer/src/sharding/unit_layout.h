// Which parameters are gathered together, and where they lie in their unit.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "muster/model_sharding.h"

namespace muster {

// Parameters and chunks begin at multiples of so many elements. A vector register has no more, so
// the kernels of an optimizer treat an element of a part (in the vector loop, or in the rest) as
// they would in the whole parameter: the same bits.
inline constexpr int64_t kAlignment = 16;

struct UnitParameter {
  at::Tensor tensor;               // the module's own
  std::vector<std::string> names;  // in the module; several when it is tied
  int64_t offset = 0;              // in the unit, in elements
  int64_t numel() const { return tensor.numel(); }
};

struct UnitLayout {
  std::string name;      // of the module, or "root"
  bool is_root = false;  // in use from the first forward to the end of backward
  std::vector<UnitParameter> parameters;
  int64_t numel = 0;   // of the parameters
  int64_t end = 0;     // of the last one
  int64_t padded = 0;  // the chunks of all ranks

  int64_t chunk(int ranks) const { return padded / ranks; }
};

// The units in the order of their first parameters in the module; every parameter is in one, once.
// Parameters of different dtypes are never in one unit. Throws std::invalid_argument for a name
// that the module does not have, and for parameters that are not floating point or not contiguous.
std::vector<UnitLayout> plan_units(torch::nn::Module& module, const ShardingOptions& options,
                                   int ranks);

// The part of [offset, offset + numel) that lies in chunk `rank`: [begin, begin + count), counted
// from offset.
struct ChunkRange {
  int64_t begin = 0, count = 0;
};
ChunkRange range_in_chunk(int64_t offset, int64_t numel, int64_t chunk, int rank);

}  // namespace muster
