// Seeds and states of LibTorch's default generators; see random_state.h.
#include "muster/device/random_state.h"

#include <ATen/Context.h>

#include "device/device_driver.h"

namespace muster {

void set_seed(uint64_t seed, const SeedOptions& options) {
  at::manual_seed(seed + options.offset);
  // LibTorch seeds the generators that it knows; a plug-in may have its own.
  for (const DeviceDriver* driver : device_drivers()) {
    if (!driver->origin().empty()) driver->seed(at::Device(driver->type()), seed + options.offset);
  }
  if (options.deterministic) {
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  }
}

at::Tensor random_state(at::Device device) { return device_driver(device).random_state(device); }

void set_random_state(at::Device device, const at::Tensor& state) {
  device_driver(device).set_random_state(device, state);
}

}  // namespace muster
