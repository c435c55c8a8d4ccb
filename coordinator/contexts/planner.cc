#include "coordinator/contexts/planner.h"

#include <memory>
#include <string>
#include <utility>

#include "coordinator/contexts/contexts.h"
#include "coordinator/core/plan.h"

namespace muster::coordinator {

void Planner::Plan(Jobs& jobs, Process& process, SubmitInput input, Done done) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(input), std::move(done)});
    if (waiting_.size() > 1) return;  // the first one has asked
  }
  Ask(jobs, process);
}

void Planner::Ask(Jobs& jobs, Process& process) {
  // The requests that came before the state is shared; later ones get a later state.
  const auto requests = std::make_shared<std::vector<PlanRequest>>();
  jobs.loop.Ask(
      [this, &process, requests](const LoopView& view) -> std::function<void()> {
        const auto shared = std::make_shared<const SchedulingState>(ShareForPlans(view.state));
        *requests = TakeAll();
        return [&process, shared, requests, now = view.now] {
          for (PlanRequest& request : *requests) {
            const std::string owner = request.input.caller.principal;
            process.reads.Post(
                [shared, now, request = std::move(request)] {
                  request.done(PlanSubmit(*shared, request.input, now));
                },
                owner);
          }
        };
      },
      [this, requests](const absl::Status& why) {
        if (requests->empty()) *requests = TakeAll();
        for (const PlanRequest& request : *requests) request.done(why);
      });
}

std::vector<Planner::PlanRequest> Planner::TakeAll() {
  std::lock_guard lock(mutex_);
  return std::exchange(waiting_, {});
}

}  // namespace muster::coordinator
