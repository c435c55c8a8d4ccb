// What accelerators this node has, found kind by kind. Blocks for the milliseconds that drivers
// need; called once at start. Never links a vendor's library: what is needed is loaded when
// present.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::worker {

struct FoundDevice {
  uint32_t index = 0;  // the runtime's, as visible-devices variables name it
  std::string model;   // empty: not known
  uint64_t memory_bytes = 0;
  std::string uuid;
};

// One row per kind of accelerator. `find` gives an empty list where driver or library is missing.
struct DeviceDiscovery {
  std::string_view kind;  // common/device_kinds.h
  std::vector<FoundDevice> (*find)();
};
std::span<const DeviceDiscovery> DeviceDiscoveries();

// By kind; kinds without a device are not in it.
using FoundDevices = std::map<std::string, std::vector<FoundDevice>, std::less<>>;
FoundDevices DiscoverDevices();

// nvidia_gpus.cc: by NVML, in its order, which is PCI order. `library`: tests name one of theirs.
std::vector<FoundDevice> FindNvidiaGpus(const std::string& library = "libnvidia-ml.so.1");
// The numbered files of a directory, "davinci4": all that some drivers show without their library.
std::vector<FoundDevice> FindDeviceFiles(std::string_view prefix,
                                         const std::string& directory = "/dev");

}  // namespace muster::worker
