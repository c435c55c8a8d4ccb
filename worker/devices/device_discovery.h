// The accelerators of this node, discovered kind by kind. Blocks for the milliseconds that drivers
// need, and for vendors' tools that are asked (ascend_npus.h); called once at startup. Never links a vendor's library: it is loaded if present.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::worker {

struct FoundDevice {
  uint32_t index = 0;  // the runtime's index, as used in visible-devices variables
  std::string model;   // empty: not known
  uint64_t memory_bytes = 0;
  std::string uuid;
  std::string address = {};  // of its own network interface; empty: not known
};

// The driver of the node's accelerators; empty: it has none, or the driver does not report it.
struct DriverVersion {
  std::string driver;  // "535.104.05"
  std::string cuda;    // the newest that it runs: "12.2"
};

// One row per kind of accelerator. `find` returns an empty list if the driver or library is
// missing. `root` precedes the paths that it reads: "" for this machine.
struct DeviceDiscovery {
  std::string_view kind;  // common/device_kinds.h
  std::vector<FoundDevice> (*find)(const std::string& root);
  DriverVersion (*find_driver)() = nullptr;  // null: it is not told
};
std::span<const DeviceDiscovery> DeviceDiscoveries();

// By kind; kinds without devices are not included.
using FoundDevices = std::map<std::string, std::vector<FoundDevice>, std::less<>>;
FoundDevices DiscoverDevices(const std::string& root);

// nvidia_gpus.cc: from NVML, in its order, which is PCI order. `library`: tests pass their own.
std::vector<FoundDevice> FindNvidiaGpus(const std::string& library = "libnvidia-ml.so.1");
DriverVersion FindNvidiaDriver(const std::string& library = "libnvidia-ml.so.1");
// The numbered files of a directory, "davinci4": some drivers show nothing else without their
// library.
std::vector<FoundDevice> FindDeviceFiles(std::string_view prefix,
                                         const std::string& directory = "/dev");

}  // namespace muster::worker
