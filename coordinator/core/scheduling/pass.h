// One scheduling pass: each waiting job in turn (order.h) is put before all policies (policies.h). It starts
// if none objects; the first that does is what the job is told. The pass returns verdicts: schedule.cc makes
// events of them, why.cc, plan.cc and decide_submit.cc sentences. It decides nothing itself, and changes
// nothing but the memo that it is given.
//
// What is to come fits in as files. Quotas, holds and any other ceiling are policies. Backfill replaces
// strict_order.cc: it lets jobs pass that do not delay the one in front. Borrowing changes the order
// (order.h). Preemption ends a pass with a third kind of verdict.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "coordinator/core/scheduling/policy.h"
#include "coordinator/core/scheduling/verdict.h"

namespace muster::coordinator {

class Pass {
 public:
  // `found`: where to keep what is found out about the queue, in addition to state.asides, which may be it.
  Pass(const SchedulingState& state, Asides& found, Now now);

  // Looks at the queue: verdicts on all jobs that start, and on those whose reason may be a new one.
  std::vector<Verdict> Run();
  // The job at which Run ended, for which those behind it wait; null: none.
  const v1::JobRecord* Head() const;

  // Everything that keeps the job back, after Run at its place in the queue, otherwise as if it were at the head. It
  // need not be in the state.
  Verdict Judge(const v1::JobRecord& job);
  // The same answer without its reasons.
  bool MayStart(const v1::JobRecord& job);
  // Why the job could not start whatever runs and waits; none: it could.
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

// Why no node that is registered could ever let the job start: a submit is refused for it. None: it can.
std::optional<Blocker> WhyNever(const SchedulingState& state, const v1::JobRecord& job, Now now);

}  // namespace muster::coordinator
