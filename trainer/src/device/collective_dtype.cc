// Checks whether a device's collectives support a dtype; see device_driver.h.
#include <optional>

#include "device/device_driver.h"
#include "device/dtype_names.h"
#include "muster/base/errors.h"
#include "muster/device/device_plugin_torch.h"

namespace muster {
namespace {

std::string advice(std::optional<MusterDtype> dtype, uint32_t supported) {
  std::string text;
  if (dtype) {
    const std::vector<MusterDtype> others = dtype_alternatives(*dtype, supported);
    for (size_t i = 0; i < others.size(); ++i) {
      text += (i == 0 ? "" : i + 1 == others.size() ? " or " : ", ") + dtype_name(others[i]);
    }
  }
  return text.empty() ? "it supports no similar dtype" : "use " + text;
}

}  // namespace

bool collective_takes(at::Device device, MusterCollective collective, at::ScalarType dtype) {
  const std::optional<MusterDtype> known = device_dtype(dtype);
  return known &&
         (device_driver(device).collective_dtypes(device, collective) & dtype_bit(*known)) != 0;
}

void require_collective_dtype(at::Device device, MusterCollective collective, at::ScalarType dtype,
                              const std::string& for_what) {
  if (collective_takes(device, collective, dtype)) return;
  const DeviceDriver& driver = device_driver(device);
  const uint32_t supported = driver.collective_dtypes(device, collective);
  const std::optional<MusterDtype> known = device_dtype(dtype);
  throw DeviceError("device '" + driver.name() + "' (" + driver.series(device) + "): its " +
                    collective_name(collective) + " does not support " +
                    (known ? dtype_name(*known) : c10::toString(dtype)) + ", which " + for_what +
                    " needs: " + advice(known, supported));
}

}  // namespace muster
