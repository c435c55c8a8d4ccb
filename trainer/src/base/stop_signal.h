// SIGTERM as a flag that the training loop reads. One per process, because a signal is.
#pragma once

namespace muster {

// From now on SIGTERM sets the flag instead of ending the process; repeated SIGTERMs change nothing
// (whoever stops a job sends SIGKILL when its patience ends). A handler that the program installed
// before is left alone.
void watch_stop_signal();

bool stop_signal_received();

}  // namespace muster
