// CUDA's table: LibTorch's generic accelerator functions, and NCCL if this build has it.
#include "device/device_driver.h"
#include "device/gloo_dtypes.h"
#include "muster/device/device_plugin_torch.h"
#ifdef MUSTER_WITH_NCCL
#include "device/nccl_backend.h"
#endif

namespace muster {
namespace {

#ifdef MUSTER_WITH_NCCL
const char* cuda_series(int32_t /*index*/) { return "NCCL"; }

// Source: getNcclDataType and the checks of 8-bit floating types in
// torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp: those can be moved but not reduced.
uint32_t collective_dtypes(int32_t /*index*/, int32_t collective) {
  const uint32_t added = dtype_bit(MUSTER_BOOL) | dtype_bit(MUSTER_UINT8) | dtype_bit(MUSTER_INT8) |
                         dtype_bit(MUSTER_INT32) | dtype_bit(MUSTER_INT64) |
                         dtype_bit(MUSTER_FLOAT16) | dtype_bit(MUSTER_BFLOAT16) |
                         dtype_bit(MUSTER_FLOAT32) | dtype_bit(MUSTER_FLOAT64);
  const uint32_t moved = dtype_bit(MUSTER_FLOAT8_E4M3) | dtype_bit(MUSTER_FLOAT8_E5M2);
  const bool adds = collective == MUSTER_ALL_REDUCE || collective == MUSTER_REDUCE_SCATTER;
  return adds ? added : added | moved;
}
#else
// Gloo supports CUDA tensors too, through host memory.
const char* cuda_series(int32_t /*index*/) { return "Gloo"; }
#endif

}  // namespace

const MusterDeviceTable& cuda_device_table() {
  static const MusterDeviceTable table = [] {
    MusterDeviceTable made = TorchAccelerator<c10::kCUDA>::table("cuda");
    made.series = &cuda_series;
#ifdef MUSTER_WITH_NCCL
    made.collective_dtypes = &collective_dtypes;
    made.make_backend = &make_nccl_backend;
#else
    made.collective_dtypes = &gloo_dtypes;
#endif
    return made;
  }();
  return table;
}

}  // namespace muster
