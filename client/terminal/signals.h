// Signal names and numbers, and the thread that waits for Ctrl-C.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::client {

// "USR1", "SIGUSR1", "usr1" or "10". Errors: JC1004.
absl::StatusOr<int> ParseSignal(std::string_view text);
// "SIGUSR1", or "signal 99".
std::string SignalName(int number);

// All names, without SIG.
std::vector<std::string_view> SignalNames();

// From now on SIGINT, SIGTERM and SIGHUP are delivered to a separate thread: blocked in this thread
// and in those it creates later, so call this before the connection is opened. Until HandleSignals,
// each kills the process, as by default. May be called again.
void WatchSignals();
// Calls `on_signal(number, count)` for each, count starting at 1, replacing the previous handler.
void HandleSignals(std::function<void(int number, int count)> on_signal);

}  // namespace muster::client
