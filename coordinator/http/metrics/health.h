// Whether the coordinator is alive, and whether it can take work. Asked by supervisors and load
// balancers, without a session.
#pragma once

#include <chrono>

#include "coordinator/http/server/message.h"

namespace muster::coordinator {
struct Daemon;
}

namespace muster::coordinator::http {

// The control loop takes turns. Says nothing about the disk: a restart would not mend it.
inline constexpr std::chrono::milliseconds kAliveWithin{5'000};
void AnswerHealth(Daemon& daemon, Respond respond);
// Recovered, not stopping, and what the loop decides becomes durable.
inline constexpr std::chrono::milliseconds kReadyWithin{1'000};
void AnswerReady(Daemon& daemon, Respond respond);

}  // namespace muster::coordinator::http
