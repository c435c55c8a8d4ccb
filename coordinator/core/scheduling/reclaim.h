// Which running jobs are asked to give way, so that a project gets its quota back. Decided on the state as it is after a
// pass; nothing happens unless all that is needed can be had. Pure.
#pragma once

#include <cstdint>
#include <optional>
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

// `waiting`: jobs that wait for devices, in the order of their turns. At most one claim, as the next one depends on it, for
// a project that has none already. The rules, all at once:
// - the job has waited for Settings.reclaim_after_ms, and with it its project is within its quota
// - a victim is borrowed: its project has more than its quota, and it is not among the jobs that make up the quota
// - all its ranks have run for Settings.min_run_ms, and it has committed a checkpoint in this attempt; one that has not, and does not declare
//   that it needs none (JobSpec.preemptible), has run four times as long
// - first those of lower priority, then those that lose least device time, then the youngest
// - none is asked in vain: what the job needs is free once all victims have ended, and not without any one of them
std::optional<Claim> FindClaim(Ground& ground, const std::vector<uint64_t>& waiting);
// Why the claim of the job holds no longer: its quota, or what its victims give up, does not suffice any more. Empty: it
// holds.
std::string WhyClaimEnds(Ground& ground, const v1::JobRecord& job);

}  // namespace muster::coordinator
