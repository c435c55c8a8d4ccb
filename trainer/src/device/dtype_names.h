// Names of the element types and collectives of a device table. Without LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/device/device_plugin.h"

namespace muster {

constexpr uint32_t dtype_bit(MusterDtype dtype) { return 1U << static_cast<uint32_t>(dtype); }

// As torch spells them: "bfloat16". Throws std::out_of_range for MUSTER_DTYPE_COUNT.
std::string dtype_name(MusterDtype dtype);

// As torch.distributed spells them: "all_reduce".
std::string collective_name(MusterCollective collective);

// The types in `supported` that can replace one that is not, closest first: for a floating-point
// type the floating-point ones of at least 16 bits, for an integer or bool the integers.
std::vector<MusterDtype> dtype_alternatives(MusterDtype dtype, uint32_t supported);

}  // namespace muster
