// The only file that includes NCCL's headers; built if LibTorch has CUDA and nccl.h is found.
#include "device/nccl_backend.h"

#include <chrono>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "muster/device/device_plugin_torch.h"

namespace muster {

int make_nccl_backend(const MusterBackendRequest* request, void* backend,
                      MusterDeviceError* error) {
  return device_status(error, [&] {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = std::chrono::milliseconds(request->timeout_ms);
    give_backend(backend, c10::make_intrusive<c10d::ProcessGroupNCCL>(
                              store_of(*request), request->rank, request->world_size, options));
  });
}

}  // namespace muster
