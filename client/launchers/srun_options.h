// Knows which options of srun take a value in the next word. Source: srun(1) of Slurm 22.05 to
// 24.11.
#pragma once

#include <string_view>

namespace muster::client {

enum class SrunOption { kUnknown, kFlag, kTakesValue };

// `name` without dashes: "partition", "p". An option with an optional value counts as a flag,
// because srun takes such a value only after "=".
SrunOption KindOfSrunOption(std::string_view name);

}  // namespace muster::client
