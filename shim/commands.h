// Single commands that are confined like ranks: setup and notify, and those of `jobctl exec`. Started by
// muster-worker.
#pragma once

namespace muster::shim {

// Runs the single program of the launch file open at `fd`, confined like a rank. If ranks have their own
// PID namespace, everything that the program started is killed when it exits. Returns its exit status, or
// dies of the same signal; if it cannot start, the reason is on stderr.
int RunConfined(int fd);

// Becomes the program in the cgroups and the PID namespace of the attempt, which the launch file names, so that
// it is killed together with the attempt's processes. It also dies with its parent. Before it starts, its pid
// is written to `pid_fd`. That may differ from this process's, if the program becomes another child of the same
// parent and this process exits.
int RunJoined(int fd, int pid_fd);

}  // namespace muster::shim
