// The cgroups that limit the ranks of one attempt: BASE/muster-MARK/rank-R for each controller. The
// shim puts each rank into its own before exec and removes them at the end; what a dead shim left
// is removed with the attempt's other cgroups, which have the same names (common/kernel/kill_ladder.h).
// Control loop's thread.
#pragma once

#include "absl/status/status.h"
#include "common/kernel/shim_protocol.h"
#include "muster/v1/job.pb.h"
#include "worker/limits/limit_host.h"

namespace muster::worker {

// Makes and limits them, and names them in the order. FAILED_PRECONDITION: this node cannot enforce
// such a limit; UNAVAILABLE: the kernel refused a cgroup or a value. Both name file and fix; the
// order names the cgroups that were made until then.
absl::Status LimitRanks(CgroupFiles& files, const LimitHost& host, const v1::RankLimits& limits,
                        common::ShimLaunch* order);

}  // namespace muster::worker
