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
    remote::register_timer();
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

const MusterDeviceTable table = [] {
  auto made = muster::TorchAccelerator<remote::kType>::table(kName);
  made.init = &init;
  made.finalize = &remote::stop_streams;
  made.series = [](int32_t) { return remote::is_small() ? "small series" : "large series"; };
  made.collective_dtypes = &remote::collective_dtypes;
  made.make_backend = &make_backend;
  return made;
}();

}  // namespace

MUSTER_DEVICE_PLUGIN(table)
