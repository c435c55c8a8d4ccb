// Ranks in containers: from the runtime, which starts a container and exits, to the rank. Part of
// Supervisor (supervisor.h).
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>

#include "common/files/plain_files.h"
#include "common/kernel/process.h"
#include "shim/supervisor.h"

namespace muster::shim {
namespace {

constexpr size_t kPidBytesMax = 32;
constexpr int kExitNotStarted = 126;
constexpr int kKillRoundsMax = 100;
constexpr useconds_t kKillPauseUs = 2'000;

// Reads the first process of a rank's container, once its runtime is done. False: it is not our
// child.
bool ReadFirstProcess(const common::LaunchContainer& container, uint32_t rank,
                      common::ProcessStat* first) {
  std::string text;
  return common::ReadSmallFile(common::BundlePath(container, rank) + "/pid", &text, kPidBytesMax) &&
         common::ReadProcessStat(std::atoi(text.c_str()), first) && first->ppid == getpid();
}

// Waits for one child, and leaves others alone.
siginfo_t WaitForAlone(pid_t pid) {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED) != 0 && errno == EINTR) continue;
  return info;
}

// Waits for one child, and reaps others meanwhile.
siginfo_t WaitFor(pid_t pid) {
  siginfo_t info{};
  while (waitid(P_ALL, 0, &info, WEXITED) == 0 || errno == EINTR) {
    if (info.si_pid == pid) return info;
    info = {};
  }
  return info;
}

// Kills the processes that the first process left behind. They are our children, because we are
// their subreaper.
void KillChildren() {
  for (int round = 0; round < kKillRoundsMax; ++round) {
    for (const pid_t child : common::ListChildren()) kill(child, SIGKILL);
    siginfo_t info{};
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0) info = {};
    if (errno == ECHILD) return;
    usleep(kKillPauseUs);
  }
}

}  // namespace

int RunContainer(const RankSetup& asked, ProcessSpace* space) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  RankSetup setup = asked;
  setup.stdout_fd = STDOUT_FILENO;
  setup.stderr_fd = STDERR_FILENO;
  const RankProcess runtime = StartRank(setup);
  if (runtime.pid < 0) return kExitNotStarted;
  siginfo_t ended = WaitForAlone(runtime.pid);  // the first process may exit first
  common::ProcessStat first;
  if (ended.si_code != CLD_EXITED || ended.si_status != 0 ||
      !ReadFirstProcess(setup.attempt->container, setup.launch->rank, &first))
    return kExitNotStarted;
  ended = WaitFor(first.pid);
  EndProcessSpace(space);
  KillChildren();
  if (ended.si_code == CLD_EXITED) return ended.si_status;
  kill(getpid(), ended.si_status);
  return kExitNotStarted;
}

// Handles the runtimes that have exited.
void Supervisor::SettleRuntimes() {
  for (Rank& rank : ranks_) {
    siginfo_t info{};
    if (rank.in_runtime && !rank.exited &&
        waitid(P_PID, static_cast<id_t>(rank.pid), &info, WEXITED | WNOHANG) == 0 &&
        info.si_pid != 0) {
      RuntimeExited(rank, info.si_code, info.si_status);
    }
  }
}

// Whether `pid` is the first process of a container whose runtime has not been reaped yet. A runtime has
// several threads: when the last one ends, we inherit the process before we can wait for the runtime.
bool Supervisor::IsOfARuntime(pid_t pid) const {
  return std::any_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
    common::ProcessStat first;
    return rank.in_runtime && !rank.exited &&
           ReadFirstProcess(launch_.container, rank.exit.rank, &first) && first.pid == pid;
  });
}

// If the container runs, its first process is the rank from now on; otherwise the start has failed.
void Supervisor::RuntimeExited(Rank& rank, int status_code, int status) {
  if (rank.exec_pipe >= 0) ReadExecPipe(rank);
  rank.in_runtime = false;
  common::ProcessStat first;
  const bool runs = status_code == CLD_EXITED && status == 0 && rank.exec_failure.error == 0 &&
                    ReadFirstProcess(launch_.container, rank.exit.rank, &first);
  if (!runs) {
    if (rank.exec_failure.error == 0 && status_code == CLD_EXITED)
      rank.exec_failure = {common::ExecStage::kContainer, ENOEXEC};
    NoteExit(rank, status_code, status_code == CLD_EXITED ? kExitNotStarted : status);
    return;
  }
  rank.pid = first.pid;
  rank.exit.pid = first.pid;
  rank.start_time = first.start_time;
  rank.started = true;
  TellStarted(rank);
  SaveState();
  if (!stop_asked_) return;
  for (const int signal : {SIGTERM, SIGCONT}) kill(rank.pid, signal);  // the runtime got the first
}

}  // namespace muster::shim
