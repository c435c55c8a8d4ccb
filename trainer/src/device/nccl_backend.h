// NCCL for CUDA tensors; only in builds that found nccl.h (MUSTER_WITH_NCCL).
#pragma once

#include "muster/device/device_plugin.h"

namespace muster {

// Implements MusterDeviceTable::make_backend.
int make_nccl_backend(const MusterBackendRequest* request, void* backend, MusterDeviceError* error);

}  // namespace muster
