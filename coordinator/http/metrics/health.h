// Whether the coordinator is alive, and whether it can take work. Asked by supervisors and load
// balancers, without a session.
#pragma once

#include <chrono>
#include <string_view>

#include "coordinator/http/server/message.h"

namespace muster::coordinator {
struct Daemon;
}

namespace muster::coordinator::http {

// 200 at the one coordinator that leads, or that is alone, and 503 at the others: for load balancers.
inline constexpr std::string_view kLeaderPath = "/leader";

// Alive: the control loop takes turns. Does not depend on the disk, which a restart would not fix.
inline constexpr std::chrono::milliseconds kAliveWithin{5'000};
void AnswerHealth(Daemon& daemon, Respond respond);
// Ready: recovered, not stopping, and what the loop decides becomes durable.
inline constexpr std::chrono::milliseconds kReadyWithin{1'000};
void AnswerReady(Daemon& daemon, Respond respond);

}  // namespace muster::coordinator::http
