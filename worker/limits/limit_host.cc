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
    "`muster-worker init` in a container with its own writable cgroup";

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
size_t OthersIn(const CgroupFiles& files, const std::string& directory) {
  size_t others = 0;
  for (const absl::string_view line :
       absl::StrSplit(files.Read(StrCat(directory, "/cgroup.procs")), '\n', absl::SkipEmpty())) {
    int pid = -1;
    if (!absl::SimpleAtoi(line, &pid) || pid != files.ProcessId()) ++others;
  }
  return others;
}

// Only the root of the whole hierarchy has no type; it may hold processes in addition to its
// children.
bool IsRoot(const CgroupFiles& files, const std::string& directory) {
  return !files.Exists(StrCat(directory, "/cgroup.type"));
}

bool MayDivide(const CgroupFiles& files, const std::string& directory) {
  if (!files.IsWritable(directory)) return false;
  return files.UserId() != 0 || !files.UnderSystemd() || files.IsDelegated(directory);
}

Ground FindGround(const CgroupFiles& files, const std::string& own) {
  if (own.empty()) {
    return {.why = "no cgroup hierarchy is mounted where it could limit ranks",
            .fix = "mount cgroup v2 at /sys/fs/cgroup; in a container, give it its cgroup"};
  }
  if (!files.Exists(StrCat(own, "/cgroup.procs"))) {
    return {.why = StrCat("its cgroup ", own, " is not visible here"), .fix = kContainerFix};
  }
  if (IsRoot(files, own)) {
    if (MayDivide(files, own)) return {.base = own};
    return {.why = "it is in the root cgroup, which it may not divide", .fix = kContainerFix};
  }
  const std::string parent = own.substr(0, own.rfind('/'));
  const bool in_leaf = own.ends_with(kLeaf) || files.IsDelegated(parent);
  if (in_leaf && MayDivide(files, parent) && OthersIn(files, parent) == 0) return {.base = parent};
  if (!files.IsWritable(own)) {
    return {.why = StrCat("its cgroup ", own, " is not writable for user ", files.UserId()),
            .fix = kContainerFix};
  }
  if (!MayDivide(files, own)) {
    return {.why = StrCat("systemd has not delegated its cgroup ", own), .fix = kSystemdFix};
  }
  // systemd does not restart a scope, because it only adopted a process that another one had
  // started.
  if (files.UnderSystemd() && !own.ends_with(".scope")) {
    return {.why = StrCat("it is itself in its delegated cgroup ", own,
                          ", where systemd could not restart it beside limited ranks"),
            .fix = kSystemdFix};
  }
  if (const size_t others = OthersIn(files, own); others > 0) {
    return {.why = StrCat("its cgroup ", own, " holds ", others, " other process",
                          others == 1 ? "" : "es", ", so it cannot be divided"),
            .fix = kContainerFix};
  }
  return {.base = own, .is_own = true};
}

// "" or why the worker could not leave the cgroup that is to be divided.
std::string EnterLeaf(CgroupFiles& files, const std::string& own) {
  const std::string leaf = StrCat(own, kLeaf);
  int error = files.MakeDirectory(leaf);
  if (error == 0) error = files.Write(StrCat(leaf, "/cgroup.procs"), StrCat(files.ProcessId()));
  if (error == 0) return "";
  files.RemoveDirectory(leaf);
  return StrCat("it could not enter ", leaf, ": ", std::strerror(error));
}

// True if a cgroup created for this test has the file.
bool ChildHas(CgroupFiles& files, const std::string& base, const char* file) {
  const std::string probe = StrCat(base, "/muster-probe-", files.ProcessId());
  if (files.MakeDirectory(probe) != 0) return false;
  const bool has = files.Exists(StrCat(probe, "/", file));
  files.RemoveDirectory(probe);
  return has;
}

LimitController OnV1(CgroupFiles& files, const Place& place, const std::string& directory,
                     const std::string& systemd) {
  LimitController found;
  const bool delegated = !systemd.empty() && files.IsDelegated(systemd);
  if (!files.IsWritable(directory)) {
    found.why = StrCat("its v1 cgroup ", directory, " is not writable for user ", files.UserId());
    found.fix = files.UserId() == 0
                    ? "start the worker's container with a writable cgroup"
                    : "start the worker as root, or in a container with a writable cgroup";
  } else if (!delegated && !MayDivide(files, directory)) {
    found.why = StrCat("systemd has not delegated its v1 cgroup ", directory);
    found.fix = "Delegate=yes in the worker's unit";
  } else if (!ChildHas(files, directory, place.v1_file)) {
    found.why = StrCat("a cgroup made in ", directory, " has no ", place.v1_file);
    found.fix = StrCat("a kernel with limits of the ", place.controller,
                       " controller, and cgroups that may be created there");
  } else {
    found.base = directory;
  }
  return found;
}

LimitController OnV2(CgroupFiles& files, const Place& place, const Ground& ground) {
  LimitController found;
  found.is_v2 = true;
  const std::string control = StrCat(ground.base, "/cgroup.subtree_control");
  const std::string available = files.Read(StrCat(ground.base, "/cgroup.controllers"));
  if (!HasWord(available, place.controller)) {
    found.why = StrCat("cgroup ", ground.base, " has no ", place.controller,
                       " controller (it has: ", absl::StripAsciiWhitespace(available), ")");
    found.fix = StrCat("enable it in the cgroups above: echo +", place.controller,
                       " > …/cgroup.subtree_control");
    return found;
  }
  if (!HasWord(files.Read(control), place.controller)) {
    const int error = files.Write(control, StrCat("+", place.controller));
    if (error != 0) {
      found.why = StrCat("cannot enable the ", place.controller, " controller in ", ground.base,
                         ": ", std::strerror(error));
      found.fix = kContainerFix;
      return found;
    }
  }
  if (!ChildHas(files, ground.base, place.v2_file)) {
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

LimitHost PrepareLimits(CgroupFiles& files) {
  const std::string cgroups = files.Read("/proc/self/cgroup");
  const std::string mounts = files.Read("/proc/self/mountinfo");
  const auto directory = [&](const std::string& controller) {
    return common::CgroupDirectory(cgroups, mounts, controller);
  };
  const std::string cpu = directory("cpu"), memory = directory("memory"), own = directory("");
  const std::string systemd = directory("name=systemd");
  LimitHost host;
  Ground ground = FindGround(files, own);
  // A controller is in one hierarchy only.
  const bool needs_v2 = cpu.empty() || memory.empty();
  if (ground.is_own && needs_v2) {
    if (const std::string why = EnterLeaf(files, own); !why.empty()) {
      ground = {.why = why, .fix = kContainerFix};
    }
  }
  const auto find = [&](const Place& place, const std::string& v1) -> LimitController {
    if (!v1.empty()) return OnV1(files, place, v1, systemd);
    if (ground.base.empty()) return {.is_v2 = true, .why = ground.why, .fix = ground.fix};
    return OnV2(files, place, ground);
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
    files.Write(StrCat(own, "/cgroup.procs"), StrCat(files.ProcessId()));
    files.RemoveDirectory(StrCat(own, kLeaf));
  }
  return host;
}

std::string EnterLeafForLimits(CgroupFiles& files) {
  const std::string cgroups = files.Read("/proc/self/cgroup");
  const std::string mounts = files.Read("/proc/self/mountinfo");
  const auto directory = [&](const std::string& controller) {
    return common::CgroupDirectory(cgroups, mounts, controller);
  };
  if (!directory("cpu").empty() && !directory("memory").empty()) return "";  // v1 needs no leaf
  const std::string own = directory("");
  const Ground ground = FindGround(files, own);
  if (!ground.is_own) return ground.why;
  return EnterLeaf(files, own);
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
