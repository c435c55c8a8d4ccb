// /api/v1/CALL: the calls of JobService as protobuf JSON. Reads as GET with query parameters, every
// call as POST with a JSON body. A stream's answer is what it says at first: {"messages":[…],
// "more":true}.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string_view>

#include "coordinator/http/message.h"
#include "coordinator/http/target.h"

namespace muster::coordinator {
struct Daemon;
}

namespace muster::coordinator::http {

inline constexpr std::string_view kApiRoot = "/api/v1/";

// What to refuse the request with before its body is read: an unknown call, the wrong method or
// type of body, a write to a coordinator that serves reads only.
std::optional<Response> CheckApiCall(const RequestHead& head, const Target& target,
                                     bool serves_writes);
// Calls being answered; more are refused. Streams that follow something take their place for a
// while.
inline constexpr size_t kCallsInFlightMax = 64;
// After the check. Never blocks. `in_flight` is the same for all calls and outlives them.
void AnswerApiCall(Daemon& daemon, std::atomic<size_t>& in_flight, const Request& request,
                   const Target& target, Respond respond);

}  // namespace muster::coordinator::http
