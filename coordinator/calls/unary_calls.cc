#include "coordinator/calls/unary_calls.h"

#include <utility>

#include "coordinator/calls/daemon.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/calls/request_limits.h"
#include "coordinator/contexts/call_budget.h"

namespace muster::coordinator {
namespace {

#define MUSTER_ONE(name, Request, Response, action, object, cost)                     \
  {CallId::k##name,                                                                   \
   *common::FindCall("JobService", #name),                                            \
   "/muster.v1.JobService/" #name,                                                    \
   v1::Request::default_instance(),                                                   \
   v1::Response::default_instance(),                                                  \
   [](Daemon& daemon, const Caller& caller, const google::protobuf::Message& request, \
      AnyAnswer answer) {                                                             \
     call::name::Handle(daemon, caller, static_cast<const v1::Request&>(request),     \
                        AnswerOf<v1::Response>(std::move(answer)));                   \
   }},
#define MUSTER_OTHER(name, Request, Response, action, object, cost)

}  // namespace

std::span<const UnaryCall> UnaryCalls() {
  static const UnaryCall calls[] = {
      MUSTER_JOB_CALLS(MUSTER_ONE, MUSTER_OTHER, MUSTER_OTHER, MUSTER_OTHER)};
  return calls;
}

void RunUnary(const UnaryCall& call, Daemon& daemon, const Caller& caller, Way way,
              const google::protobuf::Message& request, AnyAnswer answer) {
  if (const absl::Status fits = CheckRequestLimits(request); !fits.ok()) {
    return answer(fits, nullptr);
  }
  daemon.traffic.budget.Begin(
      caller.principal, BytesOf(call.row.cost), request.ByteSizeLong(),
      [&call, &daemon, way, caller, &request,
       answer = std::move(answer)](absl::StatusOr<CallBudget::Hold> hold) {
        if (!hold.ok()) return answer(hold.status(), nullptr);
        RunAudited(
            daemon.access, {call.row, way}, caller, request,
            [answer, hold = *std::move(hold)](const absl::Status& status,
                                              std::shared_ptr<google::protobuf::Message> response) {
              answer(status, std::move(response));
            },
            [&](AnyAnswer audited) { call.handle(daemon, caller, request, std::move(audited)); });
      });
}

}  // namespace muster::coordinator
