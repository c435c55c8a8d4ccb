#include "coordinator/http/api_calls.h"

#include <algorithm>
#include <utility>

#include "coordinator/http/collected.h"
#include "coordinator/rpc/audited.h"
#include "coordinator/rpc/handlers.h"

namespace muster::coordinator::http {
namespace {

using google::protobuf::Message;

// Run and Attend act when their stream ends; SignIn's links are for who can reach gRPC.
constexpr std::string_view kNotOverHttp[] = {"Attend", "Run", "SignIn"};

template <typename Request, typename Response>
void RunOne(void (*handler)(Daemon&, const Caller&, const Request&, Answer<Response>),
            const AuditedCall& audited, Daemon& daemon, const Caller& caller,
            const Message& message, Finish finish) {
  const auto& request = static_cast<const Request&>(message);
  const auto answered = [finish = std::move(finish)](absl::StatusOr<Response> response) {
    if (!response.ok()) return finish(response.status(), {});
    finish(absl::OkStatus(),
           {.messages = {std::make_shared<const Response>(*std::move(response))}});
  };
  RunAudited<Request, Response>(
      daemon, audited, caller, request, answered,
      [&](Answer<Response> answer) { handler(daemon, caller, request, std::move(answer)); });
}

template <typename Request, typename Part>
void RunStream(void (*handler)(Daemon&, const Caller&, const Request&, std::shared_ptr<Sink<Part>>),
               const AuditedCall& audited, Daemon& daemon, const Caller& caller,
               const Message& message, Finish finish) {
  const auto& request = static_cast<const Request&>(message);
  auto sink = std::make_shared<Collected<Part>>(
      std::move(finish),
      [&daemon](std::function<void()> work) { daemon.pool.Post(std::move(work)); });
  daemon.pool.PostAfter(kCollectedWithin, [sink] { sink->Expire(); });
  if (const auto recorded = Audited<Request, Part>(daemon, audited, caller, request, sink)) {
    handler(daemon, caller, request, recorded);
  }
}

#define MUSTER_API_ROW(run_it, is_stream, name, Request, Part, action, object)                  \
  {CallId::k##name,                                                                             \
   #name,                                                                                       \
   Action::action,                                                                              \
   is_stream,                                                                                   \
   v1::Request::default_instance(),                                                             \
   v1::Part::default_instance(),                                                                \
   [](Daemon& daemon, const Caller& caller, const Message& request, Finish finish) {            \
     run_it<v1::Request, v1::Part>(&coordinator::name,                                          \
                                   {#name, Action::action, Object::object, Way::kHttp}, daemon, \
                                   caller, request, std::move(finish));                         \
   }},
#define MUSTER_API_ONE(name, Request, Part, action, object) \
  MUSTER_API_ROW(RunOne, false, name, Request, Part, action, object)
#define MUSTER_API_STREAM(name, Request, Part, action, object) \
  MUSTER_API_ROW(RunStream, true, name, Request, Part, action, object)
#define MUSTER_API_NONE(name, Request, Part, action, object)

std::vector<ApiCall> MakeApiCalls() {
  std::vector<ApiCall> served;
  const ApiCall rows[] = {
      MUSTER_JOB_CALLS(MUSTER_API_ONE, MUSTER_API_STREAM, MUSTER_API_NONE, MUSTER_API_NONE)};
  std::copy_if(std::begin(rows), std::end(rows), std::back_inserter(served),
               [](const ApiCall& call) {
                 return std::find(std::begin(kNotOverHttp), std::end(kNotOverHttp), call.name) ==
                        std::end(kNotOverHttp);
               });
  return served;
}

}  // namespace

std::span<const ApiCall> ApiCalls() {
  static const auto* const calls = new std::vector<ApiCall>(MakeApiCalls());
  return *calls;
}

const ApiCall* FindApiCall(std::string_view name) {
  const std::span<const ApiCall> calls = ApiCalls();
  const auto found = std::find_if(calls.begin(), calls.end(),
                                  [&](const ApiCall& call) { return call.name == name; });
  return found == calls.end() ? nullptr : &*found;
}

}  // namespace muster::coordinator::http
