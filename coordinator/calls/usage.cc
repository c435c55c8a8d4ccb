// The call about device time.
#include <utility>

#include "coordinator/calls/handlers.h"
#include "coordinator/core/views/usage_view.h"

namespace muster::coordinator {

void ListUsage(Jobs& jobs, const Caller&, const v1::ListUsageRequest& request,
               Answer<v1::ListUsageResponse> answer) {
  jobs.loop.Ask(
      [request, answer](const LoopView& view) -> std::function<void()> {
        return [answer, usage = ViewUsage(view.state, request, view.now)] { answer(usage); };
      },
      answer);
}
MUSTER_HANDLER(ListUsage)

}  // namespace muster::coordinator
