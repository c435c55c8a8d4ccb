// What this node offers: cpu slots, nvidia gpus (NVML, loaded at run time when present), cores,
// memory. Blocks for the milliseconds that NVML needs; called once at start. Never links a GPU
// library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

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

struct GpuFacts {
  uint32_t index = 0;  // NVML's order, which is PCI order
  std::string model;
  uint64_t memory_bytes = 0;
  std::string uuid;
};
// Empty when the library or the driver is missing. `library`: tests name a file of their own.
std::vector<GpuFacts> ProbeNvidiaGpus(const std::string& library = "libnvidia-ml.so.1");
// Ascend devices: the /dev/davinciN nodes. Model and memory are unknown.
std::vector<uint32_t> ProbeAscendNpus(const std::string& dev_directory = "/dev");

struct ProbedHost {
  uint32_t cores = 1;
  std::vector<GpuFacts> gpus;
  std::vector<uint32_t> npus;
};
ProbedHost ProbeHost();

// The devices that `--devices` asks for: "" = cpu slots for every core plus every gpu and npu that
// is there, else a comma list of "cpu", "cpu:N", "gpu", "gpu:N", "npu", "npu:N". INVALID_ARGUMENT
// names the item and the fix, FAILED_PRECONDITION when more gpus or npus are asked for than are
// there.
absl::StatusOr<std::vector<muster::v1::Device>> ResolveDevices(std::string_view text,
                                                               const ProbedHost& host);

}  // namespace muster::worker
