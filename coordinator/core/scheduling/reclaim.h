// Which running jobs are asked to give way, so that a project gets its quota back, or a job of higher priority its place. Decided on the state as it is after a
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
// - the job has waited for Settings.reclaim_after_ms
// - a victim of another project is borrowed: that project has more than its quota, and the victim is not among the jobs that
//   make it up. Only a job with which its project is within its quota takes from others
// - a victim of the same project has a lower priority. The project then has no more than its quota, or than it had before
// - all its ranks have run for Settings.min_run_ms, and it has committed a checkpoint in this attempt; one that has not, or that an older
//   worker would not tell to save, and that does not declare that it needs none (JobSpec.preemptible), has run four times as long
// - first those of other projects, then those of lower priority, then those that lose least device time, then the youngest
// - none is asked in vain: what the job needs is free once all victims have ended, and not without any one of them
std::optional<Claim> FindClaim(Ground& ground, const std::vector<uint64_t>& waiting);
// Whether a running job may be asked for other projects' sake, and when.
struct Borrowing {
  uint64_t devices = 0;  // it is borrowed as a whole; 0: it is within its project's quota
  std::string kind;
  bool has_saved =
      false;  // in this attempt, and would again; or it declares that it needs no checkpoint
  int64_t in_ms = 0;          // until it may be asked, as things are; 0: now
  int64_t once_saved_ms = 0;  // as long, if an older worker would not tell it to save
};
// nullopt: the job has no devices, or no project has a quota.
std::optional<Borrowing> BorrowingOf(const SchedulingState& state, const v1::JobRecord& job,
                                     Now now);
// Why the claim of the job holds no longer: its quota, or what its victims give up, does not suffice any more. Empty: it
// holds.
std::string WhyClaimEnds(Ground& ground, const v1::JobRecord& job);

}  // namespace muster::coordinator
