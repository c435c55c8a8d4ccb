#include "worker/devices/device_probe.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/device_kinds.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "muster/v1/job.pb.h"

namespace muster::worker {
namespace {

constexpr uint32_t kSlotsMax = 100'000;  // more is a typo in "cpu:N", not a machine

std::string ReadText(const std::string& path) { return common::ReadFile(path).value_or(""); }

cpu_set_t Affinity() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) CPU_SET(0, &cpus);
  return cpus;
}

// The directories of a process's cgroup in a hierarchy, from its own up to the root. `cgroups`: its
// /proc/PID/cgroup.
std::vector<std::string> CgroupDirectories(const std::string& cgroups, std::string_view controller,
                                           const std::string& mount) {
  for (const absl::string_view line : absl::StrSplit(cgroups, '\n')) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<std::string> names = absl::StrSplit(parts[1], ',');
    if (std::find(names.begin(), names.end(), std::string(controller)) == names.end()) continue;
    if (absl::StrContains(parts[2], "/..")) continue;  // outside of what this namespace shows
    std::vector<std::string> directories;
    for (std::string path = parts[2]; path.size() > 1; path.resize(path.rfind('/'))) {
      directories.push_back(mount + path);
    }
    directories.push_back(mount);
    return directories;
  }
  return {mount};
}

// Processors allowed by cpu.max (v2) or cpu.cfs_quota_us (v1), the minimum over all levels.
std::optional<double> CpuQuota() {
  std::optional<double> least;
  const auto note = [&least](double quota, double period) {
    if (quota > 0 && period > 0) least = std::min(least.value_or(quota / period), quota / period);
  };
  const std::string own = ReadText("/proc/self/cgroup");
  for (const std::string& directory : CgroupDirectories(own, "", "/sys/fs/cgroup")) {
    double quota = 0, period = 0;
    if (std::sscanf(ReadText(directory + "/cpu.max").c_str(), "%lf %lf", &quota, &period) == 2) {
      note(quota, period);
    }
  }
  for (const std::string& directory : CgroupDirectories(own, "cpu", "/sys/fs/cgroup/cpu")) {
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
  const common::DeviceKind* kind = nullptr;
  std::optional<uint32_t> count;
};

absl::StatusOr<Wanted> ParseItem(const std::string& item) {
  const std::string fix =
      common::StrCat("; fix: give ", common::DeviceKindNames(" or "),
                     ", each with an optional count like cpu:2, separated by commas");
  const std::vector<std::string> parts = absl::StrSplit(item, absl::MaxSplits(':', 1));
  Wanted wanted{common::FindDeviceKind(absl::AsciiStrToLower(parts[0])), std::nullopt};
  if (wanted.kind == nullptr) {
    return absl::InvalidArgumentError(
        common::StrCat("'", item, "' in --devices is not a kind of device", fix));
  }
  if (parts.size() == 1) return wanted;
  uint32_t count = 0;
  if (!absl::SimpleAtoi(parts[1], &count) || count > kSlotsMax) {
    return absl::InvalidArgumentError(common::StrCat(
        "the count in '", item, "' in --devices is not a number from 0 to ", kSlotsMax, fix));
  }
  wanted.count = count;
  return wanted;
}

muster::v1::Device MakeDevice(std::string_view kind, const FoundDevice& found) {
  muster::v1::Device device;
  device.set_kind(std::string(kind));
  device.set_index(found.index);
  device.set_model(found.model);
  device.set_memory_bytes(found.memory_bytes);
  device.set_uuid(found.uuid);
  device.set_address(found.address);
  return device;
}

const std::vector<FoundDevice>& FoundOf(std::string_view kind, const ProbedHost& host) {
  static const std::vector<FoundDevice> kNone;
  const auto found = host.devices.find(kind);
  return found == host.devices.end() ? kNone : found->second;
}

absl::Status Add(const Wanted& wanted, const ProbedHost& host,
                 std::vector<muster::v1::Device>* devices) {
  const common::DeviceKind& kind = *wanted.kind;
  const std::vector<FoundDevice>& found = FoundOf(kind.name, host);
  const size_t there = kind.is_host ? kSlotsMax : found.size();
  const size_t count = wanted.count.value_or(kind.is_host ? host.cores : there);
  // A bare "gpu" on a node without one is also a mistake; "gpu:0" is not.
  if (count > there || (!wanted.count.has_value() && there == 0)) {
    return absl::FailedPreconditionError(common::StrCat(
        "--devices asks for ", count > there ? common::StrCat(count, " ") : "", kind.name,
        " devices, this node has ", there, "; fix: ask for fewer, or install the driver"));
  }
  for (uint32_t i = 0; i < count; ++i) {
    devices->push_back(MakeDevice(kind.name, kind.is_host ? FoundDevice{.index = i} : found[i]));
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
  std::set<std::string> cores;  // siblings on one core have the same line
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &cpus)) continue;
    const std::string siblings = ReadText(
        common::StrCat("/sys/devices/system/cpu/cpu", cpu, "/topology/thread_siblings_list"));
    cores.insert(siblings.empty() ? common::StrCat("cpu", cpu) : siblings);
  }
  return CutByQuota(static_cast<uint32_t>(cores.size()));
}

uint64_t UsableMemoryBytes() { return MemoryLimitBytes(ReadText("/proc/self/cgroup")); }

uint64_t MemoryLimitBytes(const std::string& cgroups) {
  uint64_t bytes =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const auto note = [&bytes](const std::string& path) {
    uint64_t limit = 0;
    if (absl::SimpleAtoi(ReadText(path), &limit) && limit > 0) bytes = std::min(bytes, limit);
  };
  for (const std::string& directory : CgroupDirectories(cgroups, "", "/sys/fs/cgroup")) {
    note(directory + "/memory.max");
  }
  for (const std::string& directory :
       CgroupDirectories(cgroups, "memory", "/sys/fs/cgroup/memory")) {
    note(directory + "/memory.limit_in_bytes");
  }
  return bytes;
}

ProbedHost ProbeHost(const std::string& root) {
  ProbedHost host{UsableCores(), DiscoverDevices(root), {}};
  for (const DeviceDiscovery& discovery : DeviceDiscoveries()) {
    if (discovery.find_driver != nullptr && host.devices.contains(discovery.kind))
      host.driver = discovery.find_driver();
  }
  return host;
}

absl::StatusOr<std::vector<muster::v1::Device>> ResolveDevices(std::string_view text,
                                                               const ProbedHost& host) {
  std::vector<Wanted> wanted;
  if (text.empty()) {
    for (const common::DeviceKind& kind : common::DeviceKinds()) {
      const size_t count = kind.is_host ? host.cores : FoundOf(kind.name, host).size();
      wanted.push_back({&kind, static_cast<uint32_t>(count)});
    }
  } else {
    for (const absl::string_view item : absl::StrSplit(common::ToAbsl(text), ',')) {
      absl::StatusOr<Wanted> one = ParseItem(std::string(absl::StripAsciiWhitespace(item)));
      if (!one.ok()) return one.status();
      const bool twice = std::any_of(wanted.begin(), wanted.end(), [&one](const Wanted& other) {
        return other.kind == one->kind;
      });
      if (twice) {
        return absl::InvalidArgumentError(
            common::StrCat("'", one->kind->name,
                           "' appears twice in --devices; fix: name each "
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
    return absl::InvalidArgumentError(common::StrCat(
        "--devices '", text, "' leaves this node without devices; fix: use e.g. cpu:2"));
  }
  return devices;
}

}  // namespace muster::worker
