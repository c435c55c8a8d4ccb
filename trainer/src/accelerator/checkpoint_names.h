// The names under which a checkpoint holds optimizer state: who makes them, and when two meet.
// docs/formats-checkpoint.md has the table of all names.
#pragma once

#include <torch/optim.h>

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "optim/optimizer_tensors.h"
#include "sharding/shard_unit.h"

namespace muster {

// "model" for the first, "model.1" for the second.
std::string numbered(const char* prefix, size_t index);

// Where a tensor that an optimizer steps belongs: to a parameter of a prepared model.
struct ParameterPlace {
  size_t model = 0;
  std::string name;                     // in the module
  const ParameterSlot* slot = nullptr;  // null: not sharded
};
using ParameterPlaces = std::unordered_map<const c10::TensorImpl*, ParameterPlace>;

// The names in version 1 of the format are short, and those of two parameters may be equal: the
// second model's begin with "1.", as those of a child "1" of the first do. Version 2 puts the
// parameter's model before its name, and writes what has no name as "group/G.I".
struct OptimizerNames {
  ParameterNames names;                               // of every parameter, once
  std::map<std::string, const ParameterSlot*> slots;  // of the sharded ones, by that name
  std::map<std::string, std::string> met;             // a name of two parameters, and which
};
OptimizerNames optimizer_names(torch::optim::Optimizer& optimizer, const ParameterPlaces& places,
                               int version);

// The slot of "exp_avg/NAME"; null if that is not sharded.
const ParameterSlot* slot_of_field(const OptimizerNames& names, const std::string& key);

// Throws CheckpointError naming both parameters if `saved` has state under a name that two
// parameters of this optimizer share.
void require_separate_names(const OptimizerNames& names, const TensorSource& saved,
                            const std::string& where);

}  // namespace muster
