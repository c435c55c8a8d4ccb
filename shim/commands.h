// Single commands that are confined like ranks: setup and notify, and those of `jobctl exec`. Started by
// muster-worker.
#pragma once

namespace muster::shim {

// Runs the one program of the launch file that `fd` is open on, confined as a rank. Where that has
// processes of its own, all that the program started ends with it. Returns its exit status, or dies of
// the same signal; if it cannot start, why is on stderr.
int RunConfined(int fd);

// Becomes it in the cgroups and among the processes of the attempt, which the launch file names: what
// ends them ends it. It also dies with its parent. Before it starts, its number is written to `pid_fd`:
// it may be another than this process's, which then exits, and a child of the same parent.
int RunJoined(int fd, int pid_fd);

}  // namespace muster::shim
