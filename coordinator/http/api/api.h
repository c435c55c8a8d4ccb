// /api/v1/CALL: the calls of JobService as protobuf JSON. Reads as GET with query parameters, every
// call as POST with a JSON body. A stream's answer is what it says at first: {"messages":[…],
// "more":true}.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "coordinator/base/fair_share.h"
#include "coordinator/http/admission/sessions.h"
#include "coordinator/http/server/message.h"
#include "coordinator/http/server/target.h"

namespace muster::coordinator {
struct Caller;
struct Daemon;
class WorkPool;
}  // namespace muster::coordinator

namespace muster::coordinator::http {

inline constexpr std::string_view kApiRoot = "/api/v1/";

// What to refuse the request with before its body is read: an unknown call, the wrong method or
// type of body.
std::optional<Response> CheckApiCall(const RequestHead& head, const Target& target);
// Calls being answered, half of them of one caller if no other asks; more are refused. Streams that follow
// something take their place for a while.
// limit: HTTP: calls under way; 503, of one caller with half of them 429
inline constexpr size_t kCallsInFlightMax = 64;
// A place for one more, or what to refuse it with.
struct CallPlace {
  std::shared_ptr<void> place;  // until its last copy is gone
  std::optional<Response> refused;
};
CallPlace TakeCallPlace(FairPlaces& places, const std::string& caller);
// Who asks: a cookie's user; with the token, whom the kernel names on a socket, otherwise the
// coordinator's own user, whose file the token is in. UNAUTHENTICATED: the user was removed or
// disabled since.
absl::StatusOr<Caller> HttpCallerOf(const Daemon& daemon, const Sessions::Session& session,
                                    const Peer& peer);
// What all calls share; outlives them.
struct ApiHandler {
  Daemon& daemon;
  WorkPool& pool;  // reads and writes their JSON
  FairPlaces places{{.most = kCallsInFlightMax, .of_one = kCallsInFlightMax / 2}};
};
// After the check; refuses what the caller may not do. Never blocks.
void AnswerApiCall(ApiHandler& handler, const Caller& caller, const Request& request,
                   const Target& target, Respond respond);

}  // namespace muster::coordinator::http
