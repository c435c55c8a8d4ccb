#include "common/calls.h"

#include <algorithm>

namespace muster::common {
namespace {

#define MUSTER_JOB_ROW(name, Request, Answer, action, object, cost) \
  {"JobService", #name, Action::action, Object::object, Cost::cost},
#define MUSTER_WORKER_ROW(name, action, object, cost) \
  {"WorkerService", #name, Action::action, Object::object, Cost::cost},
#define MUSTER_EXEC_ROW(name, action, object, cost) \
  {"ExecService", #name, Action::action, Object::object, Cost::cost},
constexpr Call kCalls[] = {
    MUSTER_JOB_CALLS(MUSTER_JOB_ROW, MUSTER_JOB_ROW, MUSTER_JOB_ROW, MUSTER_JOB_ROW)
        MUSTER_WORKER_CALLS(MUSTER_WORKER_ROW) MUSTER_EXEC_CALLS(MUSTER_EXEC_ROW)};
#undef MUSTER_JOB_ROW
#undef MUSTER_WORKER_ROW
#undef MUSTER_EXEC_ROW

}  // namespace

std::span<const Call> Calls() { return kCalls; }

const Call* FindCall(std::string_view service, std::string_view name) {
  const auto found = std::find_if(std::begin(kCalls), std::end(kCalls), [&](const Call& call) {
    return call.service == service && call.name == name;
  });
  return found == std::end(kCalls) ? nullptr : found;
}

}  // namespace muster::common
