// Which running jobs are asked to give way, so that a project gets its quota back. Decided on the state as it is after a
// pass; nothing happens unless all that is needed can be had. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/core/scheduling/ground.h"

namespace muster::coordinator {

// A queued job, and the attempts that give way to it.
struct Claim {
  uint64_t job = 0;
  std::vector<v1::Victim> victims;  // at least one, each needed
  std::string reason;               // Notice.reason
};

// `firsts`: the first waiting job of each project and kind, in the order of their turns. At most one claim for each
// project, and none for one that has a claim already. The rules, all at once:
// - the job has waited for Settings.reclaim_after_ms, and with it its project is within its quota
// - a victim is borrowed: its project has more than its quota, and it is not among the jobs that make up the quota
// - it has run for Settings.min_run_ms, and committed a checkpoint in this attempt; one that has not, and does not declare
//   that it needs none (JobSpec.preemptible), has run four times as long
// - first those of lower priority, then those that lose least device time, then the youngest
// - none is asked in vain: what the job needs is free once all victims have ended, and not without any one of them
std::vector<Claim> FindClaims(Ground& ground, const std::vector<uint64_t>& firsts);

}  // namespace muster::coordinator
