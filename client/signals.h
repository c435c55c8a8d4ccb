// Signal names and numbers, and the thread that waits for Ctrl-C.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace muster::client {

// "USR1", "SIGUSR1", "usr1" or "10". Errors: JC1004.
absl::StatusOr<int> ParseSignal(std::string_view text);
// "SIGUSR1", or "signal 99".
std::string SignalName(int number);

// Blocks SIGINT, SIGTERM and SIGHUP in this thread and those it makes later (so: before the
// connection is opened), and calls `on_signal(number, count)` for each on a thread of its own,
// count from 1. Once in a process.
void HandleSignals(std::function<void(int number, int count)> on_signal);

}  // namespace muster::client
