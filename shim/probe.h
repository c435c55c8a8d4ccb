// What of the sandbox this host has. Started by muster-worker.
#pragma once

namespace muster::shim {

// Tries each means of the sandbox on this process. Prints one line each: its name, a tab, and why it
// is not to be had, or nothing. Returns the exit status.
int ProbeSandbox();

}  // namespace muster::shim
