#include "coordinator/http/api_calls.h"

#include <algorithm>
#include <utility>

#include "coordinator/http/collected.h"
#include "coordinator/rpc/handlers.h"

namespace muster::coordinator::http {
namespace {

using google::protobuf::Message;

// Run and Attend act when their stream ends; SignIn's links are for who can reach gRPC.
constexpr std::string_view kNotOverHttp[] = {"Attend", "Run", "SignIn"};

template <typename Request, typename Response>
void RunOne(void (*handler)(Daemon&, const Caller&, const Request&, Answer<Response>),
            Daemon& daemon, const Caller& caller, const Message& request, Finish finish) {
  handler(daemon, caller, static_cast<const Request&>(request),
          [finish = std::move(finish)](absl::StatusOr<Response> response) {
            if (!response.ok()) return finish(response.status(), {});
            finish(absl::OkStatus(),
                   {.messages = {std::make_shared<const Response>(*std::move(response))}});
          });
}

template <typename Request, typename Part>
void RunStream(void (*handler)(Daemon&, const Caller&, const Request&, std::shared_ptr<Sink<Part>>),
               Daemon& daemon, const Caller& caller, const Message& request, Finish finish) {
  auto sink = std::make_shared<Collected<Part>>(std::move(finish));
  daemon.pool.PostAfter(kCollectedWithin, [sink] { sink->Expire(); });
  handler(daemon, caller, static_cast<const Request&>(request), sink);
}

#define MUSTER_API_ROW(run_it, is_stream, name, Request, Part, action)               \
  {CallId::k##name,                                                                  \
   #name,                                                                            \
   Action::action,                                                                   \
   is_stream,                                                                        \
   v1::Request::default_instance(),                                                  \
   v1::Part::default_instance(),                                                     \
   [](Daemon& daemon, const Caller& caller, const Message& request, Finish finish) { \
     run_it<v1::Request, v1::Part>(&coordinator::name, daemon, caller, request,      \
                                   std::move(finish));                               \
   }},
#define MUSTER_API_ONE(name, Request, Part, action, object) \
  MUSTER_API_ROW(RunOne, false, name, Request, Part, action)
#define MUSTER_API_STREAM(name, Request, Part, action, object) \
  MUSTER_API_ROW(RunStream, true, name, Request, Part, action)
#define MUSTER_API_DUPLEX(name, Request, Part, action, object)

std::vector<ApiCall> MakeApiCalls() {
  std::vector<ApiCall> served;
  const ApiCall rows[] = {MUSTER_JOB_CALLS(MUSTER_API_ONE, MUSTER_API_STREAM, MUSTER_API_DUPLEX)};
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
