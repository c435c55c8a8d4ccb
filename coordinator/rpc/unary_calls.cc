#include "coordinator/rpc/unary_calls.h"

#include <utility>

#include "coordinator/rpc/handlers.h"

namespace muster::coordinator {
namespace {

#define MUSTER_UNARY_ROW(name, Request, Response, action, object)                     \
  {CallId::k##name,                                                                   \
   #name,                                                                             \
   "/muster.v1.JobService/" #name,                                                    \
   Action::action,                                                                    \
   Object::object,                                                                    \
   v1::Request::default_instance(),                                                   \
   v1::Response::default_instance(),                                                  \
   [](Daemon& daemon, const Caller& caller, const google::protobuf::Message& request, \
      AnyAnswer answer) {                                                             \
     coordinator::name(daemon, caller, static_cast<const v1::Request&>(request),      \
                       AnswerOf<v1::Response>(std::move(answer)));                    \
   }},
#define MUSTER_NO_ROW(name, Request, Response, action, object)

}  // namespace

std::span<const UnaryCall> UnaryCalls() {
  static const UnaryCall calls[] = {
      MUSTER_JOB_CALLS(MUSTER_UNARY_ROW, MUSTER_NO_ROW, MUSTER_NO_ROW, MUSTER_NO_ROW)};
  return calls;
}

void RunUnary(const UnaryCall& call, Daemon& daemon, const Caller& caller, Way way,
              const google::protobuf::Message& request, AnyAnswer answer) {
  RunAudited(daemon, {call.name, call.action, call.object, way}, caller, request, std::move(answer),
             [&](AnyAnswer audited) { call.handle(daemon, caller, request, std::move(audited)); });
}

}  // namespace muster::coordinator
