// How the steps of a preparation report to their attempt, and learn that it has ended.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "worker/core/state.h"

namespace muster::worker {

struct Progress {
  AttemptKey key;
  // "fetching code: 120 MB of 2.1 GB". May be called as often as the text changes.
  std::function<void(const std::string&)> say;
  // The attempt has ended, or the worker stops. Steps check it often, and return CANCELLED.
  std::function<bool()> stopped;
};

inline absl::Status StoppedStatus() { return absl::CancelledError("the attempt was stopped"); }

}  // namespace muster::worker
