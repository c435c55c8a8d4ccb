#include "coordinator/http/api/api_calls.h"

#include <algorithm>
#include <utility>

#include "coordinator/calls/audited.h"
#include "coordinator/calls/daemon.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/calls/unary_calls.h"
#include "coordinator/http/api/collected.h"

namespace muster::coordinator::http {
namespace {

using google::protobuf::Message;

// Run and Attend act when their stream ends; SignIn's links are for clients that can reach gRPC.
constexpr std::string_view kNotOverHttp[] = {"Attend", "Run", "SignIn"};

template <typename Call, typename Part>
void RunStream(const common::Call& row, Daemon& daemon, const Caller& caller,
               const Message& message, Finish finish) {
  const auto& request = static_cast<const typename Call::Request&>(message);
  WorkPool& pool = daemon.process.pool;
  auto sink = std::make_shared<Collected<Part>>(
      std::move(finish), [&pool](std::function<void()> work) { pool.Post(std::move(work)); });
  pool.PostAfter(kCollectedWithin, [sink] { sink->Expire(); });
  const auto recorded = Audited<typename Call::Request, Part>(
      daemon.jobs, daemon.access, daemon.traffic, {row, Way::kHttp}, caller, request, sink);
  if (recorded != nullptr) Call::Handle(daemon, caller, request, recorded);
}

bool IsServed(std::string_view name) {
  return std::find(std::begin(kNotOverHttp), std::end(kNotOverHttp), name) ==
         std::end(kNotOverHttp);
}

ApiCall WithOneAnswer(const UnaryCall& call) {
  return {
      call.id,
      &call.row,
      false,
      &call.request,
      &call.response,
      [&call](Daemon& daemon, const Caller& caller, const Message& request, const Finish& finish) {
        RunUnary(call, daemon, caller, Way::kHttp, request,
                 [finish](const absl::Status& status, std::shared_ptr<Message> response) {
                   if (!status.ok()) return finish(status, {});
                   finish(status, {.messages = {std::move(response)}});
                 });
      }};
}

#define MUSTER_STREAM(name, Request, Part, action, object, cost)                             \
  {CallId::k##name,                                                                          \
   common::FindCall("JobService", #name),                                                    \
   true,                                                                                     \
   &v1::Request::default_instance(),                                                         \
   &v1::Part::default_instance(),                                                            \
   [](Daemon& daemon, const Caller& caller, const Message& request, Finish finish) {         \
     RunStream<call::name, v1::Part>(*common::FindCall("JobService", #name), daemon, caller, \
                                     request, std::move(finish));                            \
   }},
#define MUSTER_OTHER(name, Request, Part, action, object, cost)

std::vector<ApiCall> MakeApiCalls() {
  std::vector<ApiCall> served;
  for (const UnaryCall& call : UnaryCalls()) {
    if (IsServed(call.row.name)) served.push_back(WithOneAnswer(call));
  }
  const ApiCall streams[] = {
      MUSTER_JOB_CALLS(MUSTER_OTHER, MUSTER_STREAM, MUSTER_OTHER, MUSTER_OTHER)};
  std::copy_if(std::begin(streams), std::end(streams), std::back_inserter(served),
               [](const ApiCall& call) { return IsServed(call.row->name); });
  // In the order of common/calls.h.
  std::sort(served.begin(), served.end(),
            [](const ApiCall& one, const ApiCall& other) { return one.id < other.id; });
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
                                  [&](const ApiCall& call) { return call.row->name == name; });
  return found == calls.end() ? nullptr : &*found;
}

}  // namespace muster::coordinator::http
