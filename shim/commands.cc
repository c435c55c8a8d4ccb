// commands: a process cannot change its own PID namespace, only that of its children.
#include "shim/commands.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "common/files/plain_files.h"
#include "common/kernel/process.h"
#include "common/kernel/shim_protocol.h"
#include "shim/container_mounts.h"
#include "shim/process_domain.h"
#include "shim/process_space.h"
#include "shim/rank_mounts.h"
#include "shim/rank_process.h"

namespace muster::shim {
namespace {

constexpr int kCannotStart = 126;
constexpr size_t kJoinPidBytesMax = 32;
constexpr size_t kStateBytesMax = 1 << 20;

int Cannot(const char* what, const std::string& why) {
  std::fprintf(stderr, "cannot %s: %s\n", what, why.c_str());
  return kCannotStart;
}

bool ReadLaunch(int fd, common::ShimLaunch* launch) {
  std::string bytes;
  if (lseek(fd, 0, SEEK_SET) != 0 || !common::ReadAllFd(fd, &bytes, common::kLaunchFileBytesMax) ||
      !common::DecodeShimLaunch(bytes, launch) || launch->ranks.size() != 1) {
    std::fprintf(stderr, "muster-shim got no command to run\n");
    return false;
  }
  return true;
}

// False, with the reason on stderr: the cgroups are gone, so the attempt is over.
bool EnterCgroups(const common::ShimLaunch& launch) {
  const std::vector<std::string>& limits = launch.ranks[0].limit_dirs;
  std::vector<std::string> dirs = limits;
  if (!launch.freezer_dir.empty()) dirs.insert(dirs.begin(), launch.freezer_dir);
  if (!launch.cgroup_dir.empty()) dirs.insert(dirs.begin(), launch.cgroup_dir);
  for (const std::string& dir : dirs) {
    if (common::WriteControlFile(dir + "/cgroup.procs", "0")) continue;
    // If the attempt's cgroup is divided for limits, only its leaves may hold processes.
    if (dir == launch.cgroup_dir && !limits.empty()) continue;
    std::fprintf(stderr, "cannot enter the cgroup of the rank: %s\n", std::strerror(errno));
    return false;
  }
  return true;
}

// Enters the IPC and host name namespaces of a rank that runs in a container, and returns its mount namespace.
// -1 on failure, with the reason on stderr.
int EnterContainerOf(const common::ShimLaunch& launch) {
  std::string text;
  common::ReadSmallFile(common::BundlePath(launch.container, launch.ranks[0].rank) + "/pid", &text,
                        kJoinPidBytesMax);
  const pid_t pid = std::atoi(text.c_str());
  const std::string spaces = "/proc/" + std::to_string(pid) + "/ns/";
  const int mounts = open((spaces + "mnt").c_str(), O_RDONLY | O_CLOEXEC);
  const int ipc = open((spaces + "ipc").c_str(), O_RDONLY | O_CLOEXEC);
  const int name = open((spaces + "uts").c_str(), O_RDONLY | O_CLOEXEC);
  // The number may be another process's by now.
  const bool is_rank = pid > 0 && common::EnvironValue(pid, common::kMarkVariable) == launch.mark;
  if (is_rank && mounts >= 0 && setns(ipc, CLONE_NEWIPC) == 0 && setns(name, CLONE_NEWUTS) == 0)
    return mounts;
  std::fprintf(stderr, "cannot enter the container of the rank: %s\n",
               is_rank ? std::strerror(errno) : "it has ended");
  return -1;
}

// Separates this process from others, as far as the launch asks for it. False on failure, with the reason on
// stderr.
bool IsSeparated(const common::ShimLaunch& launch) {
  const bool no_new_privs = !launch.no_new_privs || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  const std::string lack = launch.sandbox.has_own_domain ? EnterOwnDomain() : "";
  if (no_new_privs && lack.empty()) return true;
  std::fprintf(stderr, "cannot separate it from other processes: %s\n", lack.c_str());
  return false;
}

// Returns only on failure.
int BecomeNow(const RankSetup& setup) {
  if (!IsSeparated(*setup.attempt)) return kCannotStart;
  const ExecFailure failed = BecomeProgram(setup);
  std::fprintf(stderr, "cannot start %s: %s\n", setup.launch->program.c_str(),
               std::strerror(failed.error));
  return kCannotStart;
}

bool MakeMounts(const common::ShimLaunch& launch, RankSetup* setup) {
  if (!launch.sandbox.has_own_mounts) return true;
  std::string failure;
  const RankMounts mounts = MakeRankMounts(launch.sandbox, launch.account, &failure);
  setup->mounts_fd = mounts.mounts_fd;
  setup->ipc_fd = mounts.ipc_fd;
  if (failure.empty()) return true;
  Cannot("make its sandbox", failure);
  return false;
}

// Ends this process as the child ended: with its exit code, or by the same signal.
int EndLike(const siginfo_t& ended) {
  if (ended.si_code == CLD_EXITED) return ended.si_status;
  kill(getpid(), ended.si_status);
  return kCannotStart;
}

// Runs the program inside the PID namespace, and waits for it from outside.
int RunInside(const RankSetup& setup, ProcessSpace* space) {
  const pid_t pid = fork();
  if (pid == 0) _exit(BecomeNow(setup));
  if (pid < 0) return Cannot("start it", std::strerror(errno));
  siginfo_t ended{};
  while (waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED) != 0 && errno == EINTR) continue;
  EndProcessSpace(space);
  waitpid(space->first, nullptr, 0);  // with it the kernel kills what the program left behind
  return EndLike(ended);
}

int RunInContainer(const RankSetup& setup, ProcessSpace* space) {
  const common::ShimLaunch& launch = *setup.attempt;
  const std::string failure = EnterContainerMounts(launch.container, launch.account, space->fd);
  if (!failure.empty()) return Cannot("make its container", failure);
  return IsSeparated(launch) ? RunContainer(setup, space) : kCannotStart;
}

// Opens the PID namespace of the attempt, which its supervisor holds. -1 on failure, with the
// reason on stderr.
int OpenSpaceOf(const common::ShimLaunch& launch) {
  std::string state;
  int shim = 0;
  common::ReadSmallFile(launch.attempt_dir + "/" + common::kShimStateName, &state, kStateBytesMax);
  const std::string path = std::sscanf(state.c_str(), "shim %d", &shim) == 1
                               ? "/proc/" + std::to_string(shim) + "/ns/pid_for_children"
                               : "";
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  // The number may be another process's by now.
  if (fd >= 0 && common::EnvironValue(shim, common::kMarkVariable) == launch.mark) return fd;
  Cannot("enter the rank's processes", fd < 0 ? std::strerror(errno) : "its attempt has ended");
  return -1;
}

bool TellNumber(int pid_fd, pid_t pid) {
  const bool told = write(pid_fd, &pid, sizeof pid) == sizeof pid;
  close(pid_fd);
  return told;
}

// A job-control shell must lead the session of its terminal, and cannot name a session outside the
// namespace.
void LeadSession(bool has_terminal) {
  std::signal(SIGHUP, SIG_DFL);
  setsid();
  if (has_terminal) ioctl(STDIN_FILENO, TIOCSCTTY, 0);
}

// Starts the program as another child of this process's parent.
int BecomeInside(const RankSetup& setup, int space_fd, int pid_fd) {
  const bool has_terminal = isatty(STDIN_FILENO) == 1;
  std::signal(SIGHUP, SIG_IGN);  // giving up the terminal sends one
  if (has_terminal) ioctl(STDIN_FILENO, TIOCNOTTY);
  if (setns(space_fd, CLONE_NEWPID) != 0)
    return Cannot("enter the rank's processes", std::strerror(errno));
  RankSetup inside = setup;
  if (!MakeMounts(*setup.attempt, &inside)) return kCannotStart;
  const long pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
  if (pid == 0) {
    close(pid_fd);
    LeadSession(has_terminal);
    _exit(BecomeNow(inside));
  }
  if (pid < 0) return Cannot("start it", std::strerror(errno));
  return TellNumber(pid_fd, static_cast<pid_t>(pid)) ? 0 : kCannotStart;
}

}  // namespace

int RunConfined(int fd) {
  common::ShimLaunch launch;
  if (!ReadLaunch(fd, &launch)) return kCannotStart;
  RankSetup setup;
  setup.attempt = &launch;
  setup.launch = &launch.ranks[0];
  ProcessSpace space;
  if (launch.sandbox.has_own_processes) {
    if (const std::string failure = MakeProcessSpace(launch, &space); !failure.empty())
      return Cannot("separate it from other processes", failure);
  }
  if (!launch.container.runtime.empty()) return RunInContainer(setup, &space);
  if (space.IsMade() && StartInside(space) != 0)
    return Cannot("enter a PID namespace", std::strerror(errno));
  if (!MakeMounts(launch, &setup)) return kCannotStart;
  return space.IsMade() ? RunInside(setup, &space) : BecomeNow(setup);
}

int RunJoined(int fd, int pid_fd) {
  common::ShimLaunch launch;
  RankSetup setup;
  setup.parent = getppid();
  if (!ReadLaunch(fd, &launch) || !EnterCgroups(launch)) return kCannotStart;
  setup.attempt = &launch;
  setup.launch = &launch.ranks[0];
  umask(022);
  if (!launch.container.runtime.empty()) {
    setup.mounts_fd = EnterContainerOf(launch);
    if (setup.mounts_fd < 0) return kCannotStart;
    // The steps that the runtime does for the rank itself.
    launch.container = {};
    launch.no_new_privs = true;
    launch.sandbox.drops_capabilities = launch.sandbox.filters_calls = true;
    launch.sandbox.has_own_mounts = false;
  }
  if (launch.sandbox.has_own_processes) {
    const int space_fd = OpenSpaceOf(launch);
    return space_fd < 0 ? kCannotStart : BecomeInside(setup, space_fd, pid_fd);
  }
  if (!MakeMounts(launch, &setup) || !TellNumber(pid_fd, getpid())) return kCannotStart;
  return BecomeNow(setup);
}

}  // namespace muster::shim
