// Finds the resources of this node: cpu slots, accelerators (device_discovery.h), cores, memory.
// Called once at startup.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/devices/device_discovery.h"

namespace muster::v1 {
class Device;
}

namespace muster::worker {

// Physical cores that this process may use: affinity mask without hyperthread siblings, cgroup cpu
// quota rounded up. At least 1.
uint32_t UsableCores();
// Logical processors in the affinity mask, limited by the cgroup quota. At least 1.
uint32_t UsableProcessors();
// Memory of the host, or of the cgroup if that is less.
uint64_t UsableMemoryBytes();
// The same for the process whose /proc/PID/cgroup this is.
uint64_t MemoryLimitBytes(const std::string& cgroups);

struct ProbedHost {
  uint32_t cores = 1;
  FoundDevices devices;
  DriverVersion driver;  // of the devices
};
// `root` precedes the paths of device files: "" for this machine.
ProbedHost ProbeHost(const std::string& root = "");

// The devices that `--devices` asks for: "" = cpu slots for every core plus every accelerator
// present, otherwise a comma-separated list of kinds, each with an optional count: "cpu:4,gpu".
// INVALID_ARGUMENT names the item and the fix, FAILED_PRECONDITION if it asks for more accelerators
// than there are.
absl::StatusOr<std::vector<muster::v1::Device>> ResolveDevices(std::string_view text,
                                                               const ProbedHost& host);

}  // namespace muster::worker
