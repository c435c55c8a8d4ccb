// /api/v1/CALL: the calls of JobService as protobuf JSON. Reads as GET with query parameters, every
// call as POST with a JSON body. The answer to a stream is its first messages: {"messages":[…],
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

// The response that refuses the request before its body is read: for an unknown call, the wrong method
// or type of body.
std::optional<Response> CheckApiCall(const RequestHead& head, const Target& target);
// Calls being answered at once; more are refused. One caller gets at most half of them, and that only while
// no other caller asks. A stream that follows something holds its place until its beginning is collected.
// limit: HTTP: calls under way; 503, of one caller with half of them 429
inline constexpr size_t kCallsInFlightMax = 64;
// A place for one more, or the response that refuses it.
struct CallPlace {
  std::shared_ptr<void> place;  // until its last copy is gone
  std::optional<Response> refused;
};
CallPlace TakeCallPlace(FairPlaces& places, const std::string& caller);
// The caller: a cookie's user; with the token, on a socket the user that the kernel reports, otherwise
// the coordinator's own user, who owns the token's file. UNAUTHENTICATED: the user was since removed or
// disabled.
absl::StatusOr<Caller> HttpCallerOf(const Daemon& daemon, const Sessions::Session& session,
                                    const Peer& peer);
// Shared by all calls; outlives them.
struct ApiHandler {
  Daemon& daemon;
  WorkPool& pool;  // parses and writes their JSON
  FairPlaces places{{.most = kCallsInFlightMax, .of_one = kCallsInFlightMax / 2}};
};
// Call it after the check. Refuses what the caller may not do. Never blocks.
void AnswerApiCall(ApiHandler& handler, const Caller& caller, const Request& request,
                   const Target& target, Respond respond);

}  // namespace muster::coordinator::http
