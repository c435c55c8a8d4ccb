#include "worker/devices/device_discovery.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "common/files/files.h"

namespace muster::worker {
namespace {

constexpr DeviceDiscovery kDiscoveries[] = {
    {"gpu", [] { return FindNvidiaGpus(); }, [] { return FindNvidiaDriver(); }},
    {"npu", [] { return FindDeviceFiles("davinci"); }},
};

}  // namespace

std::span<const DeviceDiscovery> DeviceDiscoveries() { return kDiscoveries; }

FoundDevices DiscoverDevices() {
  FoundDevices devices;
  for (const DeviceDiscovery& discovery : kDiscoveries) {
    std::vector<FoundDevice> found = discovery.find();
    if (!found.empty()) devices.emplace(discovery.kind, std::move(found));
  }
  return devices;
}

std::vector<FoundDevice> FindDeviceFiles(std::string_view prefix, const std::string& directory) {
  std::vector<FoundDevice> devices;
  const absl::StatusOr<std::vector<std::string>> names = common::ListDirectory(directory);
  if (!names.ok()) return devices;
  for (const std::string& name : *names) {
    uint32_t index = 0;
    if (name.starts_with(prefix) && absl::SimpleAtoi(name.substr(prefix.size()), &index)) {
      devices.push_back({.index = index});
    }
  }
  std::sort(devices.begin(), devices.end(),
            [](const FoundDevice& a, const FoundDevice& b) { return a.index < b.index; });
  return devices;
}

}  // namespace muster::worker
