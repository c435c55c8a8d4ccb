// Measures the devices of one kind while a job holds them. A vendor's library is loaded by name
// when a job first holds such a device, and stays loaded: it counts faults from then on. Any
// thread; calls may take milliseconds, and hang with a broken driver.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "muster/v1/sample.pb.h"

namespace muster::worker {

class DeviceMeter {
 public:
  virtual ~DeviceMeter() = default;
  // Fills in what the device reports; `index` as in FoundDevice.
  virtual void Measure(uint32_t index, v1::DeviceSample* sample) = 0;
  // The device whose file has this number. False: there is none of this kind.
  virtual bool IndexOfFile(uint32_t number, uint32_t* index) = 0;
};

// One row per kind of accelerator that can be measured. The host's kind has none.
struct DeviceMetering {
  std::string_view kind;                   // common/device_kinds.h
  std::string_view file_prefix;            // its device files, without their number
  std::unique_ptr<DeviceMeter> (*open)();  // null if its library or driver is missing
};
std::span<const DeviceMetering> DeviceMeterings();
// Null if this kind has no row.
const DeviceMetering* FindDeviceMetering(std::string_view kind);

// nvidia_meter.cc: from NVML. `library`: tests pass their own.
std::unique_ptr<DeviceMeter> OpenNvidiaMeter(const std::string& library = "libnvidia-ml.so.1");
// Knows only device files: its devices are listed without values.
std::unique_ptr<DeviceMeter> OpenFileMeter();

}  // namespace muster::worker
