#include "worker/devices/device_discovery.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "common/files/files.h"
#include "worker/devices/ascend_npus.h"

namespace muster::worker {
namespace {

constexpr DeviceDiscovery kDiscoveries[] = {
    {"gpu", [](const std::string&) { return FindNvidiaGpus(); }, [] { return FindNvidiaDriver(); }},
    {"npu", FindAscendNpus},
};

}  // namespace

std::span<const DeviceDiscovery> DeviceDiscoveries() { return kDiscoveries; }

FoundDevices DiscoverDevices(const std::string& root) {
  FoundDevices devices;
  for (const DeviceDiscovery& discovery : kDiscoveries) {
    std::vector<FoundDevice> found = discovery.find(root);
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
