#include "shim/process_space.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include "common/files/plain_files.h"
#include "common/kernel/process.h"
#include "shim/call_filter.h"
#include "shim/rank_account.h"

namespace muster::shim {
namespace {

constexpr char kLastNumber[] = "/proc/sys/kernel/ns_last_pid";
constexpr int kAliveFd = 3;

std::string NoSpace(const char* what) { return std::string(what) + ": " + std::strerror(errno); }

// Programs derive names (event files, locks) from their process number and take them for unique on the node. So
// the numbers inside continue from one at which no other attempt started.
void CountOnFrom(pid_t number) {
  const int fd = open(kLastNumber, O_WRONLY | O_CLOEXEC);
  if (fd >= 0) dprintf(fd, "%d", number);
  close(fd);
}

// Closes everything inherited from the shim but the socket that signals the shim's end.
void CloseAllBut(int alive) {
  dup2(alive, kAliveFd);
  for (int fd = 0; fd < kAliveFd; ++fd) close(fd);
  syscall(SYS_close_range, static_cast<unsigned>(kAliveFd + 1), ~0U, 0U);
}

// Not the ranks' account, because a process may set the limits, priority and processors of every other process
// of its account, so a rank could make this one spin, or kill it. Without capabilities uid 0 is an account like
// any other.
common::LaunchAccount AccountOfFirst(const common::ShimLaunch& launch) {
  constexpr uint32_t kRoot = 0, kNobody = 65534;
  const bool ranks_are_root = !launch.account.is_other || launch.account.uid == kRoot;
  const uint32_t id = ranks_are_root ? kNobody : kRoot;
  common::LaunchAccount account;
  account.is_other = true;
  account.uid = account.gid = id;
  account.groups = {id};
  return account;
}

// 0 or an errno.
int ConfineFirst(const common::ShimLaunch& launch) {
  if (BecomeAccount(AccountOfFirst(launch), /*drops_capabilities=*/true) !=
          common::ExecStage::kNone ||
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
    return errno;
  return FilterCalls();
}

void ReapAll() {
  while (waitpid(-1, nullptr, WNOHANG | __WALL) > 0) {
  }
}

[[noreturn]] void ReapUntil(int alive) {
  sigset_t all, child;
  sigfillset(&all);
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  const int signals = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
  pollfd fds[] = {{signals, POLLIN, 0}, {alive, POLLIN, 0}};
  while (fds[1].revents == 0) {
    poll(fds, 2, -1);
    signalfd_siginfo info;
    while (read(signals, &info, sizeof info) > 0) {
    }
    ReapAll();
  }
  _exit(0);
}

[[noreturn]] void BeFirst(const common::ShimLaunch& launch, pid_t shim, int alive) {
  setsid();
  prctl(PR_SET_NAME, common::kFirstProcessName, 0, 0, 0);
  CountOnFrom(shim);
  char go;
  if (read(alive, &go, 1) != 1) _exit(1);
  CloseAllBut(alive);
  const int error = chdir("/") != 0 ? errno : ConfineFirst(launch);
  if (write(kAliveFd, &error, sizeof error) != sizeof error || error != 0) _exit(1);
  ReapUntil(kAliveFd);
}

// The first process waits until its namespace is held open: once it has changed its account, the
// namespace could not be opened.
std::string Hold(ProcessSpace* space) {
  const std::string path = "/proc/" + std::to_string(space->first) + "/ns/pid";
  space->fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (space->fd < 0) return NoSpace("cannot open the PID namespace");
  int error = EPIPE;
  if (write(space->alive, "g", 1) != 1 || read(space->alive, &error, sizeof error) < 0)
    error = errno;
  errno = error;
  return error == 0 ? "" : NoSpace("cannot confine the first process of a PID namespace");
}

}  // namespace

std::string MakeProcessSpace(const common::ShimLaunch& launch, ProcessSpace* space) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return NoSpace("cannot make a socket");
  const pid_t shim = getpid();
  const long pid = syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);
  if (pid == 0) {
    close(ends[1]);
    BeFirst(launch, shim, ends[0]);
  }
  std::string failure = pid < 0 ? NoSpace("cannot make a PID namespace") : "";
  close(ends[0]);
  space->alive = ends[1];
  space->first = static_cast<pid_t>(pid);
  if (failure.empty()) failure = Hold(space);
  if (!failure.empty()) EndProcessSpace(space);
  return failure;
}

bool OnlyFirstIsLeft(const ProcessSpace& space, const std::vector<pid_t>& children) {
  if (!space.IsMade() || children != std::vector<pid_t>{space.first}) return false;
  common::ProcessStat first;
  if (!common::ReadProcessStat(space.first, &first) || first.state != 'X') return false;
  const std::string number = std::to_string(space.first);
  std::string below;
  return common::ReadSmallFile("/proc/" + number + "/task/" + number + "/children", &below) &&
         below.empty();
}

int StartInside(const ProcessSpace& space) {
  return setns(space.fd, CLONE_NEWPID) == 0 ? 0 : errno;
}

void EndProcessSpace(ProcessSpace* space) {
  for (int* fd : {&space->fd, &space->alive}) {
    if (*fd >= 0) close(std::exchange(*fd, -1));
  }
}

}  // namespace muster::shim
