// The plug-in "remote": the table of the device that docs/device-plugins.md takes as its example.
#include <c10/core/DeviceType.h>
#include <muster/device/device_plugin_torch.h>

#include "collectives.h"
#include "registration.h"
#include "streams.h"

namespace {

constexpr const char* kName = "remote";

int init(MusterDeviceError* error) {
  return muster::device_status(error, [] {
    c10::register_privateuse1_backend(kName);
    remote::register_guard();
    remote::register_hooks();
    remote::register_operators();
    remote::register_recurrent();
    remote::register_fallback();
  });
}

int make_backend(const MusterBackendRequest* request, void* backend, MusterDeviceError* error) {
  return muster::device_status(
      error, [&] { muster::give_backend(backend, remote::make_collectives(*request)); });
}

uint32_t collective_dtypes(int32_t /*index*/, int32_t collective) {
  uint32_t set = 0;
  for (const MusterDtype dtype : {MUSTER_UINT8, MUSTER_INT8, MUSTER_INT32, MUSTER_INT64,
                                  MUSTER_FLOAT16, MUSTER_BFLOAT16, MUSTER_FLOAT32,
                                  MUSTER_FLOAT64}) {
    set |= 1U << static_cast<uint32_t>(dtype);
  }
  const bool moves = collective == MUSTER_BROADCAST || collective == MUSTER_ALL_GATHER;
  return moves ? set | 1U << static_cast<uint32_t>(MUSTER_BOOL) : set;
}

const MusterDeviceTable table = [] {
  auto made = muster::TorchAccelerator<remote::kType>::table(kName);
  made.init = &init;
  made.finalize = &remote::stop_streams;
  made.series = [](int32_t) { return "first series"; };
  made.collective_dtypes = &collective_dtypes;
  made.make_backend = &make_backend;
  return made;
}();

}  // namespace

MUSTER_DEVICE_PLUGIN(table)
