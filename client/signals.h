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

// From now on SIGINT, SIGTERM and SIGHUP come on a thread of their own: blocked in this thread and
// in those it makes later, so this is called before the connection is opened. Until HandleSignals
// each ends the process as it would have. May be called again.
void WatchSignals();
// Calls `on_signal(number, count)` for each, count from 1, in place of what was given before.
void HandleSignals(std::function<void(int number, int count)> on_signal);

}  // namespace muster::client
