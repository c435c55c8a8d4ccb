// One scheduling pass: it asks all policies (policies.h) about each waiting job in turn (order.h). The job
// starts if none objects; the first one that does gives the job's reason. The pass returns verdicts:
// schedule.cc turns them into events, why.cc, plan.cc and decide_submit.cc into sentences. The pass itself
// decides nothing, and changes only the memo that it is given.
//
// Future features are new files here. Quotas, holds and any other ceiling are policies. Backfill replaces
// strict_order.cc: it lets jobs pass if they do not delay the one in front. Borrowing changes the order
// (order.h). Preemption adds a third kind of verdict.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "coordinator/core/scheduling/policy.h"
#include "coordinator/core/scheduling/verdict.h"

namespace muster::coordinator {

class Pass {
 public:
  // `found`: where to store what the pass finds out about the queue, in addition to state.asides; may be
  // state.asides itself.
  Pass(const SchedulingState& state, Asides& found, Now now);

  // Goes through the queue; returns verdicts on all jobs that start, and on jobs whose reason may have changed.
  std::vector<Verdict> Run();
  // The job at which Run ended and for which the jobs behind it wait; null: none.
  const v1::JobRecord* Head() const;

  // Everything that keeps the job back: after Run, at its place in the queue; otherwise as if it were at the head.
  // The job need not be in the state.
  Verdict Judge(const v1::JobRecord& job);
  // The same answer without its reasons.
  bool MayStart(const v1::JobRecord& job);
  // Why the job could not start, regardless of running and waiting jobs; none: it could.
  std::optional<Blocker> WhyLasting(const v1::JobRecord& job);

 private:
  void Visit(const v1::JobRecord& job);
  void VisitToldBehind();
  std::optional<QueuePlace> EndsAt() const;
  void Start(Candidate& job);
  void Wait(const v1::JobRecord& job, bool others_pass);

  const Now now_;
  Ground ground_;
  std::vector<std::unique_ptr<Policy>> policies_;
  std::vector<Verdict> verdicts_;
};

// Why the registered nodes could never run the job, which is a reason to refuse a submit. None: they could.
std::optional<Blocker> WhyNever(const SchedulingState& state, const v1::JobRecord& job, Now now);

}  // namespace muster::coordinator
