// What this node offers: cpu slots, accelerators (device_discovery.h), cores, memory. Called once
// at start.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device_discovery.h"

namespace muster::v1 {
class Device;
}

namespace muster::worker {

// Physical cores this process may use: affinity mask without hyperthread siblings, cgroup cpu quota
// rounded up. At least 1.
uint32_t UsableCores();
// Logical processors in the affinity mask, cut by the cgroup quota. At least 1.
uint32_t UsableProcessors();
// Memory of the host, or of the cgroup when that is less.
uint64_t UsableMemoryBytes();

struct ProbedHost {
  uint32_t cores = 1;
  FoundDevices devices;
};
ProbedHost ProbeHost();

// The devices that `--devices` asks for: "" = cpu slots for every core plus every accelerator that
// is there, else a comma list of kinds, each alone or with a number: "cpu:4,gpu". INVALID_ARGUMENT
// names the item and the fix, FAILED_PRECONDITION when more accelerators are asked for than are
// there.
absl::StatusOr<std::vector<muster::v1::Device>> ResolveDevices(std::string_view text,
                                                               const ProbedHost& host);

}  // namespace muster::worker
