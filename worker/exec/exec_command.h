// A command in a rank's place: as its account, in its sandbox, cgroups, working directory and
// environment, as its attempt was launched. A session's thread: the working directory may be on a
// file system that hangs.
#pragma once

#include <sys/types.h>

#include <string>

#include "common/files/files.h"
#include "muster/v1/exec.pb.h"
#include "worker/base/paths.h"

namespace muster::worker {

struct ExecSetup {
  std::string node;
  Paths paths;
  std::string shim_binary;
};

// A running command. It leads its own session and process group.
struct ExecProcess {
  pid_t pid = -1;
  // Non-blocking, like the next two. `in` and `out` are both the terminal, if there is one.
  common::UniqueFd in;
  common::UniqueFd out;
  common::UniqueFd err;  // not with a terminal
  bool has_terminal = false;
};

// On false, `ended` has the reason.
bool StartInRank(const ExecSetup& setup, const v1::ExecOrder& order, ExecProcess* process,
                 v1::ExecEnded* ended);

void SetTerminalSize(int fd, const v1::ExecTerminal& size);
// Signals the processes of its session and those with its mark in their environment. The command must
// not have been reaped yet. Returns how many there were, including the command.
int SignalExec(const ExecSetup& setup, const v1::ExecOrder& order, pid_t leader, int signal);
// Sends SIGKILL until none is left; gives up after a while on processes that the kernel does not end.
void KillExec(const ExecSetup& setup, const v1::ExecOrder& order, pid_t leader);
// Kills what is left of the commands of an earlier worker with this state directory that was killed.
void KillOlderExecs(const ExecSetup& setup);
// Reaps the command.
v1::ExecEnded ReapExec(pid_t pid);

}  // namespace muster::worker
