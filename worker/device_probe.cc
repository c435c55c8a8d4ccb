#include "worker/device_probe.h"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "common/strings.h"
#include "muster/v1/job.pb.h"

namespace muster::worker {
namespace {

constexpr uint32_t kSlotsMax = 100'000;  // a typing error in "cpu:N", not a machine

// The part of NVML's C interface that is used; nvml.h is not needed to build. Source: NVML API
// reference.
using NvmlDevice = void*;
struct NvmlMemory {
  unsigned long long total, free, used;
};
constexpr int kNvmlSuccess = 0;
constexpr unsigned kNvmlTextBytes = 96;

struct Nvml {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, NvmlDevice*) = nullptr;
  int (*name)(NvmlDevice, char*, unsigned) = nullptr;
  int (*uuid)(NvmlDevice, char*, unsigned) = nullptr;
  int (*memory)(NvmlDevice, NvmlMemory*) = nullptr;

  // Every symbol, or false.
  bool Load(void* library) {
    const auto find = [library](const char* symbol, auto* function) {
      *reinterpret_cast<void**>(function) = dlsym(library, symbol);
      return *function != nullptr;
    };
    return find("nvmlInit_v2", &init) && find("nvmlShutdown", &shutdown) &&
           find("nvmlDeviceGetCount_v2", &count) &&
           find("nvmlDeviceGetHandleByIndex_v2", &handle) && find("nvmlDeviceGetName", &name) &&
           find("nvmlDeviceGetUUID", &uuid) && find("nvmlDeviceGetMemoryInfo", &memory);
  }
};

std::string ReadText(const std::string& path) { return common::ReadFile(path).value_or(""); }

cpu_set_t Affinity() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) CPU_SET(0, &cpus);
  return cpus;
}

// The directories of this process's cgroup in a hierarchy, from its own up to the root.
std::vector<std::string> CgroupDirectories(std::string_view controller, const std::string& mount) {
  const std::string cgroups = ReadText("/proc/self/cgroup");
  for (const absl::string_view line : absl::StrSplit(cgroups, '\n')) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<std::string> names = absl::StrSplit(parts[1], ',');
    if (std::find(names.begin(), names.end(), std::string(controller)) == names.end()) continue;
    std::vector<std::string> directories;
    for (std::string path = parts[2]; path.size() > 1; path.resize(path.rfind('/'))) {
      directories.push_back(mount + path);
    }
    directories.push_back(mount);
    return directories;
  }
  return {mount};
}

// Processors that cpu.max (v2) or cpu.cfs_quota_us (v1) leaves, the least of all levels.
std::optional<double> CpuQuota() {
  std::optional<double> least;
  const auto note = [&least](double quota, double period) {
    if (quota > 0 && period > 0) least = std::min(least.value_or(quota / period), quota / period);
  };
  for (const std::string& directory : CgroupDirectories("", "/sys/fs/cgroup")) {
    double quota = 0, period = 0;
    if (std::sscanf(ReadText(directory + "/cpu.max").c_str(), "%lf %lf", &quota, &period) == 2) {
      note(quota, period);
    }
  }
  for (const std::string& directory : CgroupDirectories("cpu", "/sys/fs/cgroup/cpu")) {
    double quota = 0, period = 0;
    if (absl::SimpleAtod(ReadText(directory + "/cpu.cfs_quota_us"), &quota) &&
        absl::SimpleAtod(ReadText(directory + "/cpu.cfs_period_us"), &period)) {
      note(quota, period);
    }
  }
  return least;
}

uint32_t CutByQuota(uint32_t count) {
  const std::optional<double> quota = CpuQuota();
  if (quota.has_value()) count = std::min(count, static_cast<uint32_t>(std::ceil(*quota)));
  return std::max(count, 1u);
}

struct Wanted {
  std::string kind;
  std::optional<uint32_t> count;
};

absl::StatusOr<Wanted> ParseItem(const std::string& item) {
  constexpr std::string_view kFix =
      "; fix: give e.g. cpu:2, gpu, gpu:2 or npu:8, separated by commas";
  const std::vector<std::string> parts = absl::StrSplit(item, absl::MaxSplits(':', 1));
  Wanted wanted{absl::AsciiStrToLower(parts[0]), std::nullopt};
  if (wanted.kind != "cpu" && wanted.kind != "gpu" && wanted.kind != "npu") {
    return absl::InvalidArgumentError(
        common::StrCat("'", item, "' in --devices names no kind of device", kFix));
  }
  if (parts.size() == 1) return wanted;
  uint32_t count = 0;
  if (!absl::SimpleAtoi(parts[1], &count) || count > kSlotsMax) {
    return absl::InvalidArgumentError(common::StrCat(
        "the count in '", item, "' in --devices is not a number from 0 to ", kSlotsMax, kFix));
  }
  wanted.count = count;
  return wanted;
}

muster::v1::Device MakeDevice(std::string kind, uint32_t index) {
  muster::v1::Device device;
  device.set_kind(std::move(kind));
  device.set_index(index);
  return device;
}

absl::Status Add(const Wanted& wanted, const ProbedHost& host,
                 std::vector<muster::v1::Device>* devices) {
  const size_t there = wanted.kind == "gpu"   ? host.gpus.size()
                       : wanted.kind == "npu" ? host.npus.size()
                                              : kSlotsMax;
  const size_t standard = wanted.kind == "cpu" ? host.cores : there;
  const size_t count = wanted.count.value_or(standard);
  // A bare "gpu" on a node without one is a mistake, too; "gpu:0" is not.
  if (count > there || (!wanted.count.has_value() && there == 0)) {
    return absl::FailedPreconditionError(common::StrCat(
        "--devices asks for ", count > there ? common::StrCat(count, " ") : "", wanted.kind,
        " devices, this node has ", there, "; fix: ask for fewer, or install the driver"));
  }
  for (uint32_t i = 0; i < count; ++i) {
    muster::v1::Device device = MakeDevice(wanted.kind, wanted.kind == "npu" ? host.npus[i] : i);
    if (wanted.kind == "gpu") {
      device.set_index(host.gpus[i].index);
      device.set_model(host.gpus[i].model);
      device.set_memory_bytes(host.gpus[i].memory_bytes);
      device.set_uuid(host.gpus[i].uuid);
    }
    devices->push_back(std::move(device));
  }
  return absl::OkStatus();
}

}  // namespace

uint32_t UsableProcessors() {
  const cpu_set_t cpus = Affinity();
  return CutByQuota(static_cast<uint32_t>(CPU_COUNT(&cpus)));
}

uint32_t UsableCores() {
  const cpu_set_t cpus = Affinity();
  std::set<std::string> cores;  // siblings of one core read the same line
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &cpus)) continue;
    const std::string siblings = ReadText(
        common::StrCat("/sys/devices/system/cpu/cpu", cpu, "/topology/thread_siblings_list"));
    cores.insert(siblings.empty() ? common::StrCat("cpu", cpu) : siblings);
  }
  return CutByQuota(static_cast<uint32_t>(cores.size()));
}

uint64_t UsableMemoryBytes() {
  uint64_t bytes =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const auto note = [&bytes](const std::string& path) {
    uint64_t limit = 0;
    if (absl::SimpleAtoi(ReadText(path), &limit) && limit > 0) bytes = std::min(bytes, limit);
  };
  for (const std::string& directory : CgroupDirectories("", "/sys/fs/cgroup")) {
    note(directory + "/memory.max");
  }
  for (const std::string& directory : CgroupDirectories("memory", "/sys/fs/cgroup/memory")) {
    note(directory + "/memory.limit_in_bytes");
  }
  return bytes;
}

std::vector<GpuFacts> ProbeNvidiaGpus(const std::string& library) {
  std::vector<GpuFacts> gpus;
  // Never closed: NVML leaves threads and exit handlers behind.
  void* loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  Nvml nvml;
  if (loaded == nullptr || !nvml.Load(loaded) || nvml.init() != kNvmlSuccess) return gpus;
  unsigned count = 0;
  if (nvml.count(&count) != kNvmlSuccess) count = 0;
  for (unsigned i = 0; i < count; ++i) {
    NvmlDevice device = nullptr;
    // A device that fell off the bus has no handle: the others keep their indexes.
    if (nvml.handle(i, &device) != kNvmlSuccess) continue;
    GpuFacts gpu;
    gpu.index = i;
    char text[kNvmlTextBytes] = {};
    if (nvml.name(device, text, sizeof text) == kNvmlSuccess) gpu.model = text;
    if (nvml.uuid(device, text, sizeof text) == kNvmlSuccess) gpu.uuid = text;
    NvmlMemory memory{};
    if (nvml.memory(device, &memory) == kNvmlSuccess) gpu.memory_bytes = memory.total;
    gpus.push_back(std::move(gpu));
  }
  nvml.shutdown();
  return gpus;
}

std::vector<uint32_t> ProbeAscendNpus(const std::string& dev_directory) {
  std::vector<uint32_t> npus;
  const absl::StatusOr<std::vector<std::string>> names = common::ListDirectory(dev_directory);
  if (!names.ok()) return npus;
  constexpr std::string_view kPrefix = "davinci";
  for (const std::string& name : *names) {
    uint32_t index = 0;
    if (name.compare(0, kPrefix.size(), kPrefix) == 0 &&
        absl::SimpleAtoi(name.substr(kPrefix.size()), &index)) {
      npus.push_back(index);
    }
  }
  std::sort(npus.begin(), npus.end());
  return npus;
}

ProbedHost ProbeHost() { return {UsableCores(), ProbeNvidiaGpus(), ProbeAscendNpus()}; }

absl::StatusOr<std::vector<muster::v1::Device>> ResolveDevices(std::string_view text,
                                                               const ProbedHost& host) {
  std::vector<Wanted> wanted;
  if (text.empty()) {
    wanted = {{"cpu", host.cores},
              {"gpu", static_cast<uint32_t>(host.gpus.size())},
              {"npu", static_cast<uint32_t>(host.npus.size())}};
  } else {
    for (const absl::string_view item : absl::StrSplit(common::ToAbsl(text), ',')) {
      absl::StatusOr<Wanted> one = ParseItem(std::string(absl::StripAsciiWhitespace(item)));
      if (!one.ok()) return one.status();
      const bool twice = std::any_of(wanted.begin(), wanted.end(), [&one](const Wanted& other) {
        return other.kind == one->kind;
      });
      if (twice) {
        return absl::InvalidArgumentError(
            common::StrCat("'", one->kind,
                           "' stands twice in --devices; fix: name each "
                           "kind once, e.g. cpu:2,gpu:1"));
      }
      wanted.push_back(*std::move(one));
    }
  }
  std::vector<muster::v1::Device> devices;
  for (const Wanted& item : wanted) {
    if (absl::Status added = Add(item, host, &devices); !added.ok()) return added;
  }
  if (devices.empty()) {
    return absl::InvalidArgumentError(
        common::StrCat("--devices '", text, "' gives this node no device; fix: give e.g. cpu:2"));
  }
  return devices;
}

}  // namespace muster::worker
