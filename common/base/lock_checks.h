// The distribution's abseil is built with its checks of debug builds.
#pragma once

namespace muster::common {

// From here on, abseil's mutexes, which gRPC locks thousands of times a second, do not search for deadlocks at each lock
// under one lock of the whole process. First in main.
void LeaveOutLockChecks();

}  // namespace muster::common
