#include "coordinator/contexts/plan_desk.h"

#include <memory>
#include <string>
#include <utility>

#include "coordinator/contexts/contexts.h"
#include "coordinator/core/plan.h"

namespace muster::coordinator {

void PlanDesk::Plan(Jobs& jobs, Process& process, SubmitInput input, Done done) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(input), std::move(done)});
    if (waiting_.size() > 1) return;  // the first one has asked
  }
  Ask(jobs, process);
}

void PlanDesk::Ask(Jobs& jobs, Process& process) {
  // Those that came until the state is shared; who comes later is told of a later one.
  const auto wishes = std::make_shared<std::vector<Wish>>();
  jobs.loop.Ask(
      [this, &process, wishes](const LoopView& view) -> std::function<void()> {
        const auto shared = std::make_shared<const SchedulingState>(ShareForPlans(view.state));
        *wishes = TakeAll();
        return [&process, shared, wishes, now = view.now] {
          for (Wish& wish : *wishes) {
            const std::string owner = wish.input.caller.principal;
            process.reads.Post(
                [shared, now, wish = std::move(wish)] {
                  wish.done(PlanSubmit(*shared, wish.input, now));
                },
                owner);
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
