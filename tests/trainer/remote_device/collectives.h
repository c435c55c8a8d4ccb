// Collectives of the device: a c10d backend that runs them on a separate stream, with Gloo.
#pragma once

#include <muster/device/device_plugin.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace remote {

// The small series has no sums of bfloat16, float64 and uint8: MUSTER_REMOTE_SERIES=small.
bool is_small();
uint32_t collective_dtypes(int32_t index, int32_t collective);

c10::intrusive_ptr<c10d::Backend> make_collectives(const MusterBackendRequest& request);

}  // namespace remote
