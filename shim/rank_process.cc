#include "shim/rank_process.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <vector>

#include "shim/call_filter.h"
#include "shim/rank_account.h"

namespace muster::shim {
namespace {

using common::ExecStage;

constexpr int kExitNotExecutable = 126;
constexpr int kExitMissing = 127;

constexpr int kNumbersTried = 64;

// A rank in the attempt's PID namespace has one pid there and one here. Equal pids are easier for people and
// programs; if the kernel does not grant that, they differ.
long CloneWithOneNumber(clone_args args, pid_t above) {
  for (int i = 1; i <= kNumbersTried; ++i) {
    pid_t numbers[] = {above + i, above + i};
    args.set_tid = reinterpret_cast<uint64_t>(numbers);
    args.set_tid_size = std::size(numbers);
    const long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid >= 0 || errno != EEXIST) return pid;
  }
  return -1;
}

// A fork that starts inside the cgroup: never outside it, and without the lock that moving a
// process takes.
pid_t Fork(const RankSetup& setup) {
  clone_args args{};
  args.exit_signal = SIGCHLD;
  const auto clone_now = [&] {
    const long pid = setup.is_inside ? CloneWithOneNumber(args, getpid()) : -1;
    return pid >= 0 ? pid : syscall(SYS_clone3, &args, sizeof args);
  };
  if (setup.cgroup_fd >= 0) {
    args.flags = CLONE_INTO_CGROUP;
    args.cgroup = static_cast<uint64_t>(setup.cgroup_fd);
    if (const long pid = clone_now(); pid >= 0) return static_cast<pid_t>(pid);
  }
  args.flags = 0;
  args.cgroup = 0;
  if (!setup.is_inside) return fork();
  return static_cast<pid_t>(clone_now());
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

// Only a fallback: normally the shim kills. Cleared by set-id programs and by a change of the
// account, and grandchildren do not inherit it. A parent outside this PID namespace shows as pid 0;
// the namespace ends with that parent anyway.
void DieWithTheShim(pid_t shim) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (const pid_t parent = getppid(); parent != 0 && parent != shim) _exit(kExitNotExecutable);
}

struct ExecWords {
  char** argv;
  char** env;
  char** shell_argv;
};

bool EnterNamespaces(const RankSetup& setup) {
  return (setup.ipc_fd < 0 || setns(setup.ipc_fd, CLONE_NEWIPC) == 0) &&
         (setup.mounts_fd < 0 || setns(setup.mounts_fd, CLONE_NEWNS) == 0);
}

// Becomes the container's runtime, which confines the program itself. Returns only if that fails.
ExecStage ExecRuntime(const RankSetup& setup, const ExecWords& words) {
  if (!EnterNamespaces(setup)) return ExecStage::kSandbox;
  syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
  execve(setup.attempt->container.runtime.c_str(), words.argv, words.env);
  return ExecStage::kContainer;
}

// From here on nothing needs the shim's rights, and the last steps cannot be undone. Makes only system calls.
ExecStage Confine(const RankSetup& setup) {
  const common::LaunchSandbox& sandbox = setup.attempt->sandbox;
  if (!EnterNamespaces(setup)) return ExecStage::kSandbox;
  if (const ExecStage failed = BecomeAccount(setup.attempt->account, sandbox.drops_capabilities);
      failed != ExecStage::kNone) {
    return failed;
  }
  if (setup.parent > 0) DieWithTheShim(setup.parent);
  if (setup.attempt->no_new_privs && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return ExecStage::kSandbox;
  if (sandbox.filters_calls) {
    errno = FilterCalls();
    if (errno != 0) return ExecStage::kSandbox;
  }
  return ExecStage::kNone;
}

// Confines the process, changes to its working directory and executes its program. Returns only on
// failure, with errno set.
ExecStage Exec(const RankSetup& setup, const ExecWords& words) {
  if (!setup.attempt->container.runtime.empty()) return ExecRuntime(setup, words);
  if (const ExecStage failed = Confine(setup); failed != ExecStage::kNone) return failed;
  // Our own descriptors are close-on-exec; this also covers any that the shim's parent leaked.
  syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
  if (chdir(setup.launch->workdir.c_str()) != 0) return ExecStage::kWorkdir;
  execve(setup.launch->program.c_str(), words.argv, words.env);
  // A script without "#!" runs in a shell, as with execvp.
  if (errno == ENOEXEC) execve("/bin/sh", words.shell_argv, words.env);
  return ExecStage::kExec;
}

// The child, from fork to exec. Makes only system calls, because it must not allocate memory.
[[noreturn]] void BecomeRank(const RankSetup& setup, const ExecWords& words, pid_t shim,
                             int exec_pipe) {
  DieWithTheShim(shim);
  setsid();
  if (setup.freezer_procs_fd >= 0 && write(setup.freezer_procs_fd, "0", 1) < 0) {
    Fail(exec_pipe, ExecStage::kSetup);
  }
  // A rank never starts outside its limits' cgroups: a limit is a promise to the other jobs on the
  // node.
  for (const int fd : setup.limit_procs_fds) {
    if (write(fd, "0", 1) < 0) Fail(exec_pipe, ExecStage::kLimits);
  }
  ResetSignals();
  SetLimits();
  SetOomScore(setup.oom_score_adj);
  umask(022);
  if (dup2(setup.stdout_fd, STDOUT_FILENO) < 0 || dup2(setup.stderr_fd, STDERR_FILENO) < 0) {
    Fail(exec_pipe, ExecStage::kSetup);
  }
  Fail(exec_pipe, Exec(setup, words));
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// The runtime's command line and environment in place of a contained rank's. They include the mark, by
// which the attempt's remaining processes are found.
common::RankLaunch ExecutedLaunch(const RankSetup& setup) {
  if (setup.attempt->container.runtime.empty()) return *setup.launch;
  const common::ShimLaunch& attempt = *setup.attempt;
  common::RankLaunch launch;
  launch.program = attempt.container.runtime;
  launch.argv = common::RuntimeWords(attempt.container, setup.launch->rank, attempt.mark);
  launch.env = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                std::string(common::kMarkVariable) + "=" + attempt.mark};
  return launch;
}

// The arguments of execve, made before the fork.
class LaunchWords {
 public:
  explicit LaunchWords(const RankSetup& setup)
      : launch_(ExecutedLaunch(setup)),
        argv_(Pointers(launch_.argv)),
        env_(Pointers(launch_.env)),
        shell_argv_(argv_) {
    shell_argv_.insert(shell_argv_.begin(), const_cast<char*>("/bin/sh"));
    if (shell_argv_.size() > 1) shell_argv_[1] = const_cast<char*>(launch_.program.c_str());
  }
  ExecWords Get() { return {argv_.data(), env_.data(), shell_argv_.data()}; }

 private:
  const common::RankLaunch launch_;
  std::vector<char*> argv_, env_, shell_argv_;
};

}  // namespace

RankProcess StartRank(const RankSetup& asked) {
  RankSetup setup = asked;
  setup.parent = getpid();
  RankProcess process;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    process.error = errno;
    return process;
  }
  LaunchWords words(setup);
  process.pid = Fork(setup);
  if (process.pid == 0) BecomeRank(setup, words.Get(), setup.parent, ends[1]);
  if (process.pid < 0) process.error = errno;
  close(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  process.exec_pipe = ends[0];
  return process;
}

ExecFailure BecomeProgram(const RankSetup& setup) {
  LaunchWords words(setup);
  const ExecStage stage = Exec(setup, words.Get());
  return {stage, errno};
}

}  // namespace muster::shim
