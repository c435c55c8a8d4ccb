// Ascend NPUs by torch_npu and HCCL: libmuster_trainer_npu.so. Compiled against torch_npu's public
// headers; never run on a device. Source of the calls: examples/libtorch_hccl of torch_npu.
#include <third_party/acl/inc/acl/acl.h>
#include <torch_npu/csrc/libs/init_npu.h>

#include <chrono>
#include <cstdio>
#include <torch_npu/csrc/distributed/ProcessGroupHCCL.hpp>

#include "muster/device/device_plugin_torch.h"
#include "series.h"

namespace muster::ascend {
namespace {

using Npu = TorchAccelerator<c10::kPrivateUse1>;

// CANN requires torch_npu's init call on a device before LibTorch uses it.
int set_current(int32_t index, MusterDeviceError* error) {
  const int status =
      device_status(error, [&] { torch_npu::init_npu(static_cast<c10::DeviceIndex>(index)); });
  return status != 0 ? status : Npu::set_current(index, error);
}

void finalize() {
  MusterDeviceError error;
  if (device_status(&error, [] { torch_npu::finalize_npu(); }) != 0) {
    std::fprintf(stderr, "muster: npu: finalize failed: %s\n", error.text);
  }
}

Series own_series() {
  const char* const soc_name = aclrtGetSocName();
  return soc_name == nullptr ? Series::unknown : series_of(soc_name);
}

const char* series(int32_t /*index*/) { return series_name(own_series()); }

uint32_t dtypes(int32_t /*index*/, int32_t collective) {
  return collective_dtypes(own_series(), collective);
}

int make_backend(const MusterBackendRequest* request, void* backend, MusterDeviceError* error) {
  return device_status(error, [&] {
    auto options = c10d_npu::ProcessGroupHCCL::Options::create();
    options->opTimeout = std::chrono::milliseconds(request->timeout_ms);
    give_backend(backend, c10::make_intrusive<c10d_npu::ProcessGroupHCCL>(
                              store_of(*request), request->rank, request->world_size, options));
  });
}

const MusterDeviceTable npu_table = [] {
  MusterDeviceTable table = Npu::table("npu");
  table.finalize = &finalize;
  table.set_current = &set_current;
  table.series = &series;
  table.collective_dtypes = &dtypes;
  table.make_backend = &make_backend;
  return table;
}();

}  // namespace
}  // namespace muster::ascend

MUSTER_DEVICE_PLUGIN(muster::ascend::npu_table)
