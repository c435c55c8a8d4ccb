// One scheduling pass: it asks all policies (policies.h) about each waiting job in turn (order.h). The job
// starts if none objects; the first one that does gives the job's reason. The pass returns verdicts:
// schedule.cc turns them into events, why.cc, plan.cc and decide_submit.cc into sentences. The pass itself
// decides nothing, and changes only the memo that it is given.
//
// Future features are new files here: a ceiling is a policy, and what decides between projects is in queue_walk.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "coordinator/core/scheduling/policy.h"
#include "coordinator/core/scheduling/queue_walk.h"
#include "coordinator/core/scheduling/reclaim.h"
#include "coordinator/core/scheduling/verdict.h"

namespace muster::coordinator {

class Pass {
 public:
  // `found`: where to store what the pass finds out about the queue, in addition to state.asides; may be
  // state.asides itself.
  Pass(const SchedulingState& state, Asides& found, Now now);

  // A pass after each event looks only at so many jobs from the front; those behind them have their turn once a second.
  static constexpr size_t kAtOnce = 500;
  static constexpr int64_t kAllEveryMs = 1'000;

  // Goes through the queue; returns verdicts on all jobs that start, and on jobs whose reason may have changed.
  std::vector<Verdict> Run(size_t jobs_max = QueueWalk::kLookedAtMax);
  // After Run: whether more jobs waited than that.
  bool was_cut() const { return was_cut_; }
  // After Run: whether the job starts.
  bool Starts(uint64_t job) const { return ground_.HasStarted(job); }
  size_t starts() const { return ground_.starts(); }
  // What it has looked at so far: nodes, over all jobs.
  size_t looks() const { return ground_.looks(); }
  // After Run: whether anything is held for a job that waits.
  bool HoldsPlaces() const { return !ground_.places().empty(); }
  // Whether time alone may change what a job gets: what is held for it, or who may be asked for it.
  bool TimeMatters() const { return HoldsPlaces() || !waiting_.empty(); }
  // After Run: the jobs, as they had their turns.
  const std::vector<uint64_t>& order() const { return order_; }
  // After Run: who is to give way to whom.
  std::optional<Claim> FindClaim() { return coordinator::FindClaim(ground_, waiting_); }
  // After Run: of a job that claims.
  std::string WhyClaimEnds(const v1::JobRecord& job) {
    return coordinator::WhyClaimEnds(ground_, job);
  }
  // After Run: devices in use by projects.
  const ProjectUse& use() const { return ground_.use; }
  // After Run: what is held for a job ahead of this one that keeps it back, one of its own project first; null: nothing.
  const HeldPlace* PlaceAhead(const v1::JobRecord& job);
  // After Run: what is held for this job; null: nothing.
  const HeldPlace* PlaceFor(const v1::JobRecord& job) const;
  // After Run: how long the job may take to start now on devices that are held for others; nullopt: that is not what
  // keeps it back.
  std::optional<int64_t> MayStartForMs(const v1::JobRecord& job);

  // Everything that keeps the job back: after Run, at its place in the queue; otherwise as if it were first.
  // The job need not be in the state.
  Verdict Judge(const v1::JobRecord& job);
  // The same answer without its reasons.
  bool MayStart(const v1::JobRecord& job);
  // Why the job could not start, regardless of running and waiting jobs; none: it could.
  std::optional<Blocker> WhyLasting(const v1::JobRecord& job);

 private:
  enum class Outcome { kStarts, kWaits, kAside, kLimited };
  Outcome Visit(const v1::JobRecord& job);
  void TellAgain();
  void VisitToldBehind();
  bool EndsHere() const;
  Outcome Start(Candidate& job);
  Outcome Wait(Candidate& job, bool others_pass);
  Outcome Wait(Candidate& job, Policy& policy);  // which does not allow it

  const Now now_;
  Ground ground_;
  std::vector<std::unique_ptr<Policy>> policies_;
  std::vector<Verdict> verdicts_;
  std::vector<uint64_t> order_;
  bool was_cut_ = false;
  std::vector<uint64_t>
      waiting_;  // of them, those that wait for devices; not all, if there are very many
  // Reasons that name what was free before some of the starts.
  struct Told {
    size_t verdict;
    Policy* policy;
    size_t starts;
  };
  std::vector<Told> told_;
};

// Why the registered nodes could never run the job, which is a reason to refuse a submit. None: they could.
std::optional<Blocker> WhyNever(const SchedulingState& state, const v1::JobRecord& job, Now now);

}  // namespace muster::coordinator
