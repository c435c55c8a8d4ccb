// Which limits this node can enforce, and where its ranks' cgroups go: decided once when the worker
// starts, reported to the coordinator, so that no job is placed where its limits would not hold.
//
// cgroup v1: a controller's hierarchy in which the worker may create cgroups. cgroup v2: a cgroup
// that the worker may divide. A cgroup with controllers for its children cannot hold processes
// itself, so the worker must be in a leaf: systemd's (DelegateSubgroup=), one of an earlier start,
// or one that it makes and enters, which it does only if no systemd would restart it in the divided
// cgroup, and no other process is in it.
#pragma once

#include <string>

#include "common/kernel/kill_ladder.h"
#include "muster/v1/event.pb.h"
#include "worker/limits/cgroup_files.h"

namespace muster::worker {

// One controller, "cpu" or "memory".
struct LimitController {
  std::string base;  // attempts' cgroups are created here; empty: it cannot be limited
  bool is_v2 = false;
  std::string why, fix;  // if it cannot
};

struct LimitHost {
  LimitController cpu, memory;
  std::string
      v2_base;  // where attempts' v2 cgroups are created, instead of below the worker's own; empty: no change
};

// Enters a leaf and enables controllers if need be.
LimitHost PrepareLimits(CgroupFiles& files);
// For the parent of a worker that has to divide its cgroup: enters the leaf first, because other processes in
// the cgroup would keep it from being divided. Returns the reason of a failure, or "".
std::string EnterLeafForLimits(CgroupFiles& files);
// The cgroups to create and to clear attempts in.
common::CgroupHost ProbeCgroups(const LimitHost& limits);
v1::LimitFacts DescribeLimitHost(const LimitHost& limits);

}  // namespace muster::worker
