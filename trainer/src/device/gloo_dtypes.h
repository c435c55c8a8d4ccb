// The dtypes that Gloo's collectives support. Without LibTorch.
#pragma once

#include <cstdint>

#include "device/dtype_names.h"

namespace muster {

// Implements MusterDeviceTable::collective_dtypes. Source: GENERATE_ALL_TYPES in
// torch/csrc/distributed/c10d/ProcessGroupGloo.cpp; tests/trainer/device checks it against Gloo
// itself.
inline uint32_t gloo_dtypes(int32_t /*index*/, int32_t /*collective*/) {
  return dtype_bit(MUSTER_BOOL) | dtype_bit(MUSTER_UINT8) | dtype_bit(MUSTER_INT8) |
         dtype_bit(MUSTER_INT32) | dtype_bit(MUSTER_INT64) | dtype_bit(MUSTER_FLOAT16) |
         dtype_bit(MUSTER_BFLOAT16) | dtype_bit(MUSTER_FLOAT32) | dtype_bit(MUSTER_FLOAT64);
}

}  // namespace muster
