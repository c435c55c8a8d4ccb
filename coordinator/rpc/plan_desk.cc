#include "coordinator/rpc/plan_desk.h"

#include <utility>

#include "coordinator/core/plan.h"
#include "coordinator/rpc/contexts.h"

namespace muster::coordinator {

void PlanDesk::Plan(Jobs& jobs, Process& process, const std::string& owner, v1::JobSpec spec,
                    Done done) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back({owner, std::move(spec), std::move(done)});
    if (waiting_.size() > 1) return;  // the first one has asked
  }
  Ask(jobs, process);
}

void PlanDesk::Ask(Jobs& jobs, Process& process) {
  // Those that came until the state is copied; who comes later is told of a later one.
  const auto wishes = std::make_shared<std::vector<Wish>>();
  jobs.loop.Ask(
      [this, &process, wishes](const LoopView& view) -> std::function<void()> {
        const auto copy = std::make_shared<const ClusterState>(CopyForPlans(view.state));
        *wishes = TakeAll();
        return [&process, copy, wishes, now = view.now] {
          for (Wish& wish : *wishes) {
            process.reads.Post([copy, now, spec = std::move(wish.spec),
                                done = std::move(wish.done)] { done(PlanSpec(*copy, spec, now)); },
                               wish.owner);
          }
        };
      },
      [this, wishes](const absl::Status& why) {
        if (wishes->empty()) *wishes = TakeAll();
        for (const Wish& wish : *wishes) wish.done(why);
      });
}

std::vector<PlanDesk::Wish> PlanDesk::TakeAll() {
  std::lock_guard lock(mutex_);
  return std::exchange(waiting_, {});
}

}  // namespace muster::coordinator
