// What muster-shim does besides supervising an attempt. All are started by muster-worker.
#pragma once

namespace muster::shim {

// Tries each means of the sandbox on this process. Prints one line each: its name, a tab, and why it
// is not to be had, or nothing. Returns the exit status.
int ProbeSandbox();

// Becomes the one program of the launch file that `fd` is open on, confined as a rank. Returns the
// exit status if it cannot; why is on stderr.
int RunConfined(int fd);

// The same in the cgroups of the attempt and the rank, which the launch file names: what ends them
// ends it. It also dies with its parent.
int RunJoined(int fd);

}  // namespace muster::shim
