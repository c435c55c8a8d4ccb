// Finds out which means of the sandbox this host supports. Started by muster-worker.
#pragma once

namespace muster::shim {

// Tries each means of the sandbox on this process. Prints one line for each: its name, a tab, and why it
// is not available, or nothing. Returns the exit status.
int ProbeSandbox();

}  // namespace muster::shim
