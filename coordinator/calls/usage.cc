// The call about device time.
#include "coordinator/calls/handlers.h"
#include "coordinator/core/views/usage_view.h"

namespace muster::coordinator {

void ListUsage(Jobs& jobs, Process& process, const Caller& caller,
               const v1::ListUsageRequest& request, Answer<v1::ListUsageResponse> answer) {
  jobs.plans.Look(
      jobs, process,
      {.owner = caller.principal,
       .look = [answer, request](
                   const Planner::View& view) { answer(ViewUsage(view.state, request, view.now)); },
       .refuse = answer});
}
MUSTER_HANDLER(ListUsage)

}  // namespace muster::coordinator
