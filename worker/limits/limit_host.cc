#include "worker/limits/limit_host.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/limits.h"
#include "common/files/cgroup_files.h"
#include "common/text/strings.h"
#include "common/text/text.h"

namespace muster::worker {
namespace {

using common::StrCat;

constexpr char kLeaf[] = "/muster-worker";
constexpr char kSystemdFix[] =
    "Delegate=yes and DelegateSubgroup=worker in the worker's unit (systemd 254 or newer)";
constexpr char kContainerFix[] =
    "start the worker as a systemd service with Delegate=yes and DelegateSubgroup=worker, or by "
    "`muster-worker init` in a container with a writable cgroup of its own";

struct Place {
  const char* controller;
  const char* v1_file;  // that sets the limit
  const char* v2_file;
};
constexpr Place kCpu{"cpu", "cpu.cfs_quota_us", "cpu.max"};
constexpr Place kMemory{"memory", "memory.limit_in_bytes", "memory.max"};

// A v2 cgroup that may be divided, or why none may.
struct Ground {
  std::string base;
  bool is_own = false;  // the worker is in it, and has to leave for a leaf
  std::string why, fix;
};

bool HasWord(const std::string& text, std::string_view word) {
  const std::vector<std::string> words = absl::StrSplit(text, absl::ByAnyChar(" \n"));
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Processes in a cgroup other than this one. Other namespaces' processes are listed as 0.
size_t OthersIn(const CgroupDoor& door, const std::string& directory) {
  size_t others = 0;
  for (const absl::string_view line :
       absl::StrSplit(door.Read(StrCat(directory, "/cgroup.procs")), '\n', absl::SkipEmpty())) {
    int pid = -1;
    if (!absl::SimpleAtoi(line, &pid) || pid != door.ProcessId()) ++others;
  }
  return others;
}

// Only the root of the whole hierarchy has no type; it may hold processes beside its children.
bool IsRoot(const CgroupDoor& door, const std::string& directory) {
  return !door.Exists(StrCat(directory, "/cgroup.type"));
}

bool MayDivide(const CgroupDoor& door, const std::string& directory) {
  if (!door.IsWritable(directory)) return false;
  return door.UserId() != 0 || !door.UnderSystemd() || door.IsDelegated(directory);
}

Ground FindGround(const CgroupDoor& door, const std::string& own) {
  if (own.empty()) {
    return {.why = "no cgroup hierarchy is mounted where it could limit ranks",
            .fix = "mount cgroup v2 at /sys/fs/cgroup; in a container, give it its cgroup"};
  }
  if (!door.Exists(StrCat(own, "/cgroup.procs"))) {
    return {.why = StrCat("its cgroup ", own, " is not visible here"), .fix = kContainerFix};
  }
  if (IsRoot(door, own)) {
    if (MayDivide(door, own)) return {.base = own};
    return {.why = "it is in the root cgroup, which it may not divide", .fix = kContainerFix};
  }
  const std::string parent = own.substr(0, own.rfind('/'));
  const bool in_leaf = own.ends_with(kLeaf) || door.IsDelegated(parent);
  if (in_leaf && MayDivide(door, parent) && OthersIn(door, parent) == 0) return {.base = parent};
  if (!door.IsWritable(own)) {
    return {.why = StrCat("its cgroup ", own, " is not writable for user ", door.UserId()),
            .fix = kContainerFix};
  }
  if (!MayDivide(door, own)) {
    return {.why = StrCat("systemd has not delegated its cgroup ", own), .fix = kSystemdFix};
  }
  // A scope is not started again: systemd adopted a process that another one had started.
  if (door.UnderSystemd() && !own.ends_with(".scope")) {
    return {.why = StrCat("it is itself in its delegated cgroup ", own,
                          ", where systemd could not restart it beside limited ranks"),
            .fix = kSystemdFix};
  }
  if (const size_t others = OthersIn(door, own); others > 0) {
    return {.why = StrCat("its cgroup ", own, " holds ", others, " other process",
                          others == 1 ? "" : "es", ", so it cannot be divided"),
            .fix = kContainerFix};
  }
  return {.base = own, .is_own = true};
}

// "" or why the worker could not leave the cgroup that is to be divided.
std::string EnterLeaf(CgroupDoor& door, const std::string& own) {
  const std::string leaf = StrCat(own, kLeaf);
  int error = door.MakeDirectory(leaf);
  if (error == 0) error = door.Write(StrCat(leaf, "/cgroup.procs"), StrCat(door.ProcessId()));
  if (error == 0) return "";
  door.RemoveDirectory(leaf);
  return StrCat("it could not enter ", leaf, ": ", std::strerror(error));
}

// A cgroup made for the test has the file.
bool ChildHas(CgroupDoor& door, const std::string& base, const char* file) {
  const std::string probe = StrCat(base, "/muster-probe-", door.ProcessId());
  if (door.MakeDirectory(probe) != 0) return false;
  const bool has = door.Exists(StrCat(probe, "/", file));
  door.RemoveDirectory(probe);
  return has;
}

LimitController OnV1(CgroupDoor& door, const Place& place, const std::string& directory,
                     const std::string& systemd) {
  LimitController found;
  const bool delegated = !systemd.empty() && door.IsDelegated(systemd);
  if (!door.IsWritable(directory)) {
    found.why = StrCat("its v1 cgroup ", directory, " is not writable for user ", door.UserId());
    found.fix = door.UserId() == 0
                    ? "start the worker's container with a writable cgroup"
                    : "start the worker as root, or in a container with a writable cgroup";
  } else if (!delegated && !MayDivide(door, directory)) {
    found.why = StrCat("systemd has not delegated its v1 cgroup ", directory);
    found.fix = "Delegate=yes in the worker's unit";
  } else if (!ChildHas(door, directory, place.v1_file)) {
    found.why = StrCat("a cgroup made in ", directory, " has no ", place.v1_file);
    found.fix = StrCat("a kernel with limits of the ", place.controller,
                       " controller, and cgroups that may be created there");
  } else {
    found.base = directory;
  }
  return found;
}

LimitController OnV2(CgroupDoor& door, const Place& place, const Ground& ground) {
  LimitController found;
  found.is_v2 = true;
  const std::string control = StrCat(ground.base, "/cgroup.subtree_control");
  const std::string available = door.Read(StrCat(ground.base, "/cgroup.controllers"));
  if (!HasWord(available, place.controller)) {
    found.why = StrCat("cgroup ", ground.base, " has no ", place.controller,
                       " controller (it has: ", absl::StripAsciiWhitespace(available), ")");
    found.fix = StrCat("enable it in the cgroups above: echo +", place.controller,
                       " > …/cgroup.subtree_control");
    return found;
  }
  if (!HasWord(door.Read(control), place.controller)) {
    const int error = door.Write(control, StrCat("+", place.controller));
    if (error != 0) {
      found.why = StrCat("cannot enable the ", place.controller, " controller in ", ground.base,
                         ": ", std::strerror(error));
      found.fix = kContainerFix;
      return found;
    }
  }
  if (!ChildHas(door, ground.base, place.v2_file)) {
    found.why = StrCat("a cgroup made in ", ground.base, " has no ", place.v2_file);
    found.fix = kContainerFix;
    return found;
  }
  found.base = ground.base;
  return found;
}

std::string Fact(const std::string& text) {
  std::string shown = common::Printable(text);
  if (shown.size() <= common::kFactBytesMax) return shown;
  size_t end = common::kFactBytesMax - std::strlen("…");
  while (end > 0 && (static_cast<unsigned char>(shown[end]) & 0xC0) == 0x80) --end;
  return StrCat(shown.substr(0, end), "…");
}

void AddGap(const LimitController& controller, v1::LimitGap* (v1::LimitFacts::*gap)(),
            v1::LimitFacts* facts) {
  if (!controller.base.empty()) {
    facts->set_how(controller.is_v2 ? "cgroup v2" : "cgroup v1");
    return;
  }
  (facts->*gap)()->set_why(Fact(controller.why));
  (facts->*gap)()->set_fix(Fact(controller.fix));
}

}  // namespace

LimitHost PrepareLimits(CgroupDoor& door) {
  const std::string cgroups = door.Read("/proc/self/cgroup");
  const std::string mounts = door.Read("/proc/self/mountinfo");
  const auto directory = [&](const std::string& controller) {
    return common::CgroupDirectory(cgroups, mounts, controller);
  };
  const std::string cpu = directory("cpu"), memory = directory("memory"), own = directory("");
  const std::string systemd = directory("name=systemd");
  LimitHost host;
  Ground ground = FindGround(door, own);
  // A controller is in one hierarchy only.
  const bool needs_v2 = cpu.empty() || memory.empty();
  if (ground.is_own && needs_v2) {
    if (const std::string why = EnterLeaf(door, own); !why.empty()) {
      ground = {.why = why, .fix = kContainerFix};
    }
  }
  const auto find = [&](const Place& place, const std::string& v1) -> LimitController {
    if (!v1.empty()) return OnV1(door, place, v1, systemd);
    if (ground.base.empty()) return {.is_v2 = true, .why = ground.why, .fix = ground.fix};
    return OnV2(door, place, ground);
  };
  host.cpu = find(kCpu, cpu);
  host.memory = find(kMemory, memory);
  if (ground.base.empty() || (ground.is_own && !needs_v2)) return host;
  if (!ground.is_own) {
    if (ground.base != own) host.v2_base = ground.base;
    return host;
  }
  const auto divides = [](const LimitController& found) {
    return found.is_v2 && !found.base.empty();
  };
  if (divides(host.cpu) || divides(host.memory)) {
    host.v2_base = ground.base;
  } else {  // leave it as it was
    door.Write(StrCat(own, "/cgroup.procs"), StrCat(door.ProcessId()));
    door.RemoveDirectory(StrCat(own, kLeaf));
  }
  return host;
}

std::string EnterLeafForLimits(CgroupDoor& door) {
  const std::string cgroups = door.Read("/proc/self/cgroup");
  const std::string mounts = door.Read("/proc/self/mountinfo");
  const auto directory = [&](const std::string& controller) {
    return common::CgroupDirectory(cgroups, mounts, controller);
  };
  if (!directory("cpu").empty() && !directory("memory").empty()) return "";  // v1 needs no leaf
  const std::string own = directory("");
  const Ground ground = FindGround(door, own);
  if (!ground.is_own) return ground.why;
  return EnterLeaf(door, own);
}

common::CgroupHost ProbeCgroups(const LimitHost& limits) {
  common::CgroupHost host = common::ProbeCgroupHost(common::KillLevel::kCgroupV2, limits.v2_base);
  for (const LimitController* controller : {&limits.cpu, &limits.memory}) {
    const std::string& base = controller->base;
    const std::vector<std::string>& known = host.limit_bases;
    if (base.empty() || base == host.v2_base) continue;
    if (std::find(known.begin(), known.end(), base) == known.end())
      host.limit_bases.push_back(base);
  }
  return host;
}

v1::LimitFacts DescribeLimitHost(const LimitHost& limits) {
  v1::LimitFacts facts;
  AddGap(limits.cpu, &v1::LimitFacts::mutable_no_cpus, &facts);
  AddGap(limits.memory, &v1::LimitFacts::mutable_no_memory, &facts);
  return facts;
}

}  // namespace muster::worker
