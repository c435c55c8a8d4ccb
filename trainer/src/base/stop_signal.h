// Turns SIGTERM into a flag that the training loop reads. One per process, because signals are per
// process.
#pragma once

namespace muster {

// From now on SIGTERM sets the flag instead of killing the process; repeated SIGTERMs have no
// effect (the launcher sends SIGKILL after its grace period). A handler that the program already
// installed is kept.
void watch_stop_signal();

bool stop_signal_received();

}  // namespace muster
