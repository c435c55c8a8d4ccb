#include "shim/rendezvous_process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "common/kernel/rendezvous_status.h"
#include "shim/rank_account.h"

namespace muster::shim {
namespace {

constexpr int kExitNoStore = 126;

// A file in memory with the settings, open for reading.
int SettingsFile(const std::string& settings) {
  const int fd = memfd_create("rendezvous", MFD_CLOEXEC);
  if (fd < 0) return -1;
  if (write(fd, settings.data(), settings.size()) != static_cast<ssize_t>(settings.size()) ||
      lseek(fd, 0, SEEK_SET) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

// Between fork and exec: system calls alone.
[[noreturn]] void Become(const common::ShimLaunch& launch, pid_t parent, int settings,
                         char* const* argv, char* const* env, int status, int exits) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  setsid();
  dup2(settings, STDIN_FILENO);
  const int held = common::kFirstHeldPortFd + static_cast<int>(launch.held_ports);
  for (int fd = common::kFirstHeldPortFd; fd < held; ++fd) fcntl(fd, F_SETFD, 0);
  for (const int fd : {status, exits}) fcntl(fd, F_SETFD, 0);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (BecomeAccount(launch.account, true) != common::ExecStage::kNone) _exit(kExitNoStore);
  // After the change of account, which resets it.
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() != parent) _exit(kExitNoStore);
  execve(argv[0], argv, env);
  _exit(kExitNoStore);
}

}  // namespace

RendezvousProcess StartRendezvous(const common::ShimLaunch& launch) {
  const std::string path = launch.attempt_dir + "/" + common::kRendezvousStatusName;
  const int status = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  int exits[2] = {-1, -1};
  RendezvousProcess process;
  if (status < 0 || pipe2(exits, O_CLOEXEC | O_NONBLOCK) != 0) {
    if (status >= 0) close(status);
    return process;
  }
  const uint32_t account = launch.account.is_other ? launch.account.uid : geteuid();
  const int settings =
      SettingsFile(launch.rendezvous_settings + "account " + std::to_string(account) + "\nstatus " +
                   std::to_string(status) + "\nexits " + std::to_string(exits[0]) + "\n");
  std::string program = launch.rendezvous_program;
  std::string name = std::to_string(launch.job) + "." + std::to_string(launch.attempt);
  std::string mark = std::string(common::kMarkVariable) + "=" + launch.mark;
  char* const argv[] = {program.data(), name.data(), nullptr};
  char* const env[] = {mark.data(), nullptr};
  const pid_t parent = getpid();
  process.pid = settings < 0 ? -1 : fork();
  if (process.pid == 0) Become(launch, parent, settings, argv, env, status, exits[0]);
  const int error = errno;
  for (const int fd : {status, exits[0], settings}) {
    if (fd >= 0) close(fd);
  }
  if (process.pid < 0) {
    close(exits[1]);
  } else {
    process.exits = exits[1];
  }
  errno = error;
  return process;
}

}  // namespace muster::shim
