#include "shim/rank_process.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <vector>

namespace muster::shim {
namespace {

using common::ExecStage;

constexpr int kExitNotExecutable = 126;
constexpr int kExitMissing = 127;

// A fork that starts inside the cgroup: never outside it, and without the lock that moving a
// process takes.
pid_t ForkInto(int cgroup_fd) {
  if (cgroup_fd >= 0) {
    clone_args args{};
    args.flags = CLONE_INTO_CGROUP;
    args.exit_signal = SIGCHLD;
    args.cgroup = static_cast<uint64_t>(cgroup_fd);
    const long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid >= 0) return static_cast<pid_t>(pid);
  }
  return fork();
}

[[noreturn]] void Fail(int exec_pipe, ExecStage stage) {
  const ExecFailure failure{stage, errno};
  [[maybe_unused]] const ssize_t count = write(exec_pipe, &failure, sizeof failure);
  _exit(failure.error == ENOENT ? kExitMissing : kExitNotExecutable);
}

void ResetSignals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) sigaction(number, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Descriptors and locked memory up to the hard limit (data loaders and RDMA need both). No multi-GB
// core files unless the rank raises its soft limit itself.
void SetLimits() {
  for (const int resource : {RLIMIT_NOFILE, RLIMIT_MEMLOCK}) {
    rlimit limit{};
    if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0) {
      limit.rlim_cur = limit.rlim_max;
      setrlimit(static_cast<__rlimit_resource>(resource), &limit);
    }
  }
  rlimit core{};
  if (getrlimit(RLIMIT_CORE, &core) == 0) {
    core.rlim_cur = 0;
    setrlimit(RLIMIT_CORE, &core);
  }
}

void SetOomScore(int score) {
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  char text[16];
  const int length = std::snprintf(text, sizeof text, "%d", score);
  [[maybe_unused]] const ssize_t count = write(fd, text, static_cast<size_t>(length));
  close(fd);
}

// The child, from fork to exec. Only system calls: nothing may be allocated here.
[[noreturn]] void BecomeRank(const RankSetup& setup, char** argv, char** env, char** shell_argv,
                             pid_t shim, int exec_pipe) {
  // Only a fallback: normally the shim kills. Cleared by set-id programs, and grandchildren do not
  // inherit it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != shim) _exit(kExitNotExecutable);
  setsid();
  if (setup.freezer_procs_fd >= 0 && write(setup.freezer_procs_fd, "0", 1) < 0) {
    Fail(exec_pipe, ExecStage::kSetup);
  }
  // Never without them: a limit is a promise to whoever shares the node.
  for (const int fd : setup.limit_procs_fds) {
    if (write(fd, "0", 1) < 0) Fail(exec_pipe, ExecStage::kLimits);
  }
  ResetSignals();
  SetLimits();
  SetOomScore(setup.oom_score_adj);
  umask(022);
  if (setup.no_new_privs && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    Fail(exec_pipe, ExecStage::kSetup);
  }
  if (dup2(setup.stdout_fd, STDOUT_FILENO) < 0 || dup2(setup.stderr_fd, STDERR_FILENO) < 0) {
    Fail(exec_pipe, ExecStage::kSetup);
  }
  // Our own descriptors are close-on-exec; this also covers any that the shim's parent leaked.
  syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
  if (chdir(setup.launch->workdir.c_str()) != 0) Fail(exec_pipe, ExecStage::kWorkdir);
  execve(setup.launch->program.c_str(), argv, env);
  // A script without "#!" runs in a shell, as with execvp.
  if (errno == ENOEXEC) execve("/bin/sh", shell_argv, env);
  Fail(exec_pipe, ExecStage::kExec);
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

RankProcess StartRank(const RankSetup& setup) {
  RankProcess process;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    process.error = errno;
    return process;
  }
  std::vector<char*> argv = Pointers(setup.launch->argv);
  std::vector<char*> env = Pointers(setup.launch->env);
  std::vector<char*> shell_argv = argv;
  shell_argv.insert(shell_argv.begin(), const_cast<char*>("/bin/sh"));
  shell_argv[1] = const_cast<char*>(setup.launch->program.c_str());
  const pid_t shim = getpid();
  process.pid = ForkInto(setup.cgroup_fd);
  if (process.pid == 0) {
    BecomeRank(setup, argv.data(), env.data(), shell_argv.data(), shim, ends[1]);
  }
  if (process.pid < 0) process.error = errno;
  close(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  process.exec_pipe = ends[0];
  return process;
}

}  // namespace muster::shim
