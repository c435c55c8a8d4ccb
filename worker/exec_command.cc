#include "worker/exec_command.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/crc32c.h"
#include "common/shim_protocol.h"
#include "common/spawn_attributes.h"
#include "common/strings.h"
#include "worker/confined_command.h"
#include "worker/containers/find_in_image.h"
#include "worker/launch_environment.h"
#include "worker/marked_processes.h"
#include "worker/rank_account.h"
#include "worker/shim_client.h"

namespace muster::worker {
namespace {

using common::StrCat;

constexpr int kNotStarted = 126;
constexpr int kNotFound = 127;
constexpr size_t kExecPidBytesMax = 32;
constexpr std::string_view kPathVariable = "PATH=";
constexpr std::string_view kTermVariable = "TERM=";
// By which a process that left the command's session is found.
constexpr std::string_view kExecVariable = "MUSTER_EXEC";

bool NotStarted(int exit_code, std::string problem, v1::ExecEnded* ended) {
  ended->set_exit_code(exit_code);
  ended->set_problem(std::move(problem));
  return false;
}

// Of workers on one host, each knows its own by the state directory.
std::string ExecMark(const ExecSetup& setup, const std::string& session) {
  return StrCat(session, "-", common::Crc32c(setup.paths.StateDir()));
}

// The rank's launch with this command in its place.
bool CommandInRank(const ExecSetup& setup, const common::ShimLaunch& attempt,
                   const v1::ExecOrder& order, common::RankLaunch* command) {
  const auto rank =
      std::find_if(attempt.ranks.begin(), attempt.ranks.end(),
                   [&order](const common::RankLaunch& each) { return each.rank == order.rank(); });
  if (rank == attempt.ranks.end()) return false;
  *command = *rank;
  command->argv.assign(order.command().begin(), order.command().end());
  if (!command->argv.empty()) command->program = command->argv[0];
  command->env.push_back(StrCat(kExecVariable, "=", ExecMark(setup, order.session())));
  if (!order.has_terminal()) return true;
  std::erase_if(command->env,
                [](const std::string& entry) { return entry.starts_with(kTermVariable); });
  const std::string& type = order.terminal().type();
  command->env.push_back(StrCat(kTermVariable, type.empty() ? "dumb" : type));
  return true;
}

// What muster-shim reads to become it.
common::UniqueFd LaunchOfJoined(const common::ShimLaunch& attempt, common::RankLaunch command) {
  common::ShimLaunch launch;
  launch.mark = attempt.mark;
  launch.attempt_dir = attempt.attempt_dir;
  launch.account = attempt.account;
  launch.sandbox = attempt.sandbox;
  launch.no_new_privs = attempt.no_new_privs;
  launch.container = attempt.container;
  launch.cgroup_dir = attempt.cgroup_dir;
  launch.freezer_dir = attempt.freezer_dir;
  launch.ranks.push_back(std::move(command));
  return LaunchInMemory(launch);
}

// The child's ends.
struct ChildEnds {
  common::UniqueFd in, out, err;
  std::string terminal;  // its path, instead of the three
};

bool OpenPipe(common::UniqueFd* read_end, common::UniqueFd* write_end) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return false;
  *read_end = common::UniqueFd(fds[0]);
  *write_end = common::UniqueFd(fds[1]);
  return true;
}

bool OpenPipes(const v1::ExecOrder& order, ExecProcess* process, ChildEnds* child) {
  if (order.stdin()
          ? !OpenPipe(&child->in, &process->in)
          : !(child->in = common::UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC))).valid()) {
    return false;
  }
  return OpenPipe(&process->out, &child->out) && OpenPipe(&process->err, &child->err);
}

bool OpenTerminal(const v1::ExecOrder& order, const common::LaunchAccount& account,
                  ExecProcess* process, ChildEnds* child) {
  process->has_terminal = true;
  process->out = common::UniqueFd(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  char path[64];
  if (!process->out.valid() || grantpt(process->out.get()) != 0 ||
      unlockpt(process->out.get()) != 0 || ptsname_r(process->out.get(), path, sizeof path) != 0) {
    return false;
  }
  // Programs open it again by its name.
  if (account.is_other && chown(path, account.uid, account.gid) != 0) return false;
  process->in = common::UniqueFd(fcntl(process->out.get(), F_DUPFD_CLOEXEC, 0));
  child->terminal = path;
  SetTerminalSize(process->out.get(), order.terminal());
  return process->in.valid();
}

std::vector<char*> WordsOf(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// The process that becomes the command; minus an errno. Where that cannot be, `shim` has told why on the
// command's stderr, and its own end is the command's.
pid_t AwaitNumber(int pid_fd, pid_t shim) {
  pid_t pid = 0;
  ssize_t got = 0;
  while ((got = read(pid_fd, &pid, sizeof pid)) < 0 && errno == EINTR) continue;
  if (got != sizeof pid || pid == shim) return shim;
  while (waitpid(shim, nullptr, 0) < 0 && errno == EINTR) continue;
  return pid;
}

pid_t SpawnJoined(const std::string& shim, const ChildEnds& child, int launch_fd) {
  common::UniqueFd pid_end, shims_end;
  if (!OpenPipe(&pid_end, &shims_end)) return -errno;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (child.terminal.empty()) {
    posix_spawn_file_actions_adddup2(&actions, child.in.get(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, child.out.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, child.err.get(), STDERR_FILENO);
  } else {
    // The first terminal that a session's leader opens is its own.
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, child.terminal.c_str(), O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDERR_FILENO);
  }
  posix_spawn_file_actions_adddup2(&actions, launch_fd, common::kConfinedFd);
  posix_spawn_file_actions_adddup2(&actions, shims_end.get(), common::kJoinedPidFd);
  posix_spawn_file_actions_addclosefrom_np(&actions, common::kJoinedPidFd + 1);
  posix_spawn_file_actions_addchdir_np(&actions, "/");
  const common::SpawnAttributes attributes(POSIX_SPAWN_SETSID);
  std::vector<std::string> argv = {shim, common::kJoinArgument};
  std::vector<std::string> env;
  pid_t pid = -1;
  const int error = posix_spawn(&pid, shim.c_str(), &actions, attributes.get(),
                                WordsOf(argv).data(), WordsOf(env).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return -error;
  shims_end.Reset();
  return AwaitNumber(pid_end.get(), pid);
}

void DoNotBlock(const common::UniqueFd& fd) {
  if (fd.valid()) fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
}

// Where the rank is: on the node, or in its container.
std::optional<LaunchProblem> CheckCommand(const ExecSetup& setup, const common::ShimLaunch& attempt,
                                          std::vector<common::RankLaunch>* command) {
  common::RankLaunch& first = command->front();
  if (attempt.container.runtime.empty()) {
    const ActAs acting(ReadAccount(setup.paths.Account({attempt.job, attempt.attempt})));
    return CheckLaunch(setup.node, command);
  }
  const auto pid = common::ReadFile(common::BundlePath(attempt.container, first.rank) + "/pid",
                                    kExecPidBytesMax);
  const std::string root = StrCat("/proc/", pid.ok() ? *pid : "0", "/root");
  const common::UniqueFd directory(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) {
    return LaunchProblem{ESRCH, kNotStarted,
                         StrCat("node ", setup.node, ": the container of rank ", first.rank,
                                " does not run; fix: see `jobctl show`")};
  }
  std::string search;
  for (const std::string& entry : first.env) {
    if (entry.starts_with(kPathVariable)) search = entry.substr(kPathVariable.size());
  }
  if (!first.argv.empty())
    first.program = FindProgramIn(directory.get(), search, first.workdir, first.argv[0]);
  if (!first.argv.empty() && !first.program.empty()) return std::nullopt;
  return LaunchProblem{
      ENOENT, kNotFound,
      StrCat("node ", setup.node, ": command '", first.argv.empty() ? "" : first.argv[0],
             "' was not found in the rank's image; fix: correct the command")};
}

}  // namespace

bool StartInRank(const ExecSetup& setup, const v1::ExecOrder& order, ExecProcess* process,
                 v1::ExecEnded* ended) {
  const AttemptKey key{order.job(), order.attempt()};
  const auto attempt = ReadShimLaunch(setup.paths.AttemptDir(key));
  std::vector<common::RankLaunch> command(1);
  if (!attempt.ok() || !CommandInRank(setup, *attempt, order, &command.front())) {
    return NotStarted(
        kNotStarted,
        StrCat("node ", setup.node, " does not run rank ", order.rank(), " of the job"), ended);
  }
  if (const auto problem = CheckCommand(setup, *attempt, &command))
    return NotStarted(problem->exit_code, problem->text, ended);
  ChildEnds child;
  const common::UniqueFd launch = LaunchOfJoined(*attempt, std::move(command.front()));
  const bool opened = launch.valid() &&
                      (order.has_terminal() ? OpenTerminal(order, attempt->account, process, &child)
                                            : OpenPipes(order, process, &child));
  if (!opened) {
    return NotStarted(kNotStarted,
                      StrCat("node ", setup.node,
                             " has no terminal or no descriptor for it: ", std::strerror(errno)),
                      ended);
  }
  process->pid = SpawnJoined(setup.shim_binary, child, launch.get());
  if (process->pid < 0) {
    return NotStarted(
        kNotStarted,
        StrCat("node ", setup.node, " cannot start it: ", std::strerror(-process->pid)), ended);
  }
  for (const common::UniqueFd* fd : {&process->in, &process->out, &process->err}) DoNotBlock(*fd);
  return true;
}

void SetTerminalSize(int fd, const v1::ExecTerminal& size) {
  winsize window{};
  window.ws_col = static_cast<unsigned short>(std::min<uint32_t>(size.columns(), 10'000));
  window.ws_row = static_cast<unsigned short>(std::min<uint32_t>(size.rows(), 10'000));
  ioctl(fd, TIOCSWINSZ, &window);
}

int SignalExec(const ExecSetup& setup, const v1::ExecOrder& order, pid_t leader, int signal) {
  return SignalMarked({std::string(kExecVariable), ExecMark(setup, order.session())}, leader,
                      signal);
}

void KillExec(const ExecSetup& setup, const v1::ExecOrder& order, pid_t leader) {
  KillMarked({std::string(kExecVariable), ExecMark(setup, order.session())}, leader);
}

void KillOlderExecs(const ExecSetup& setup) {
  KillMarkedBefore(std::string(kExecVariable), ExecMark(setup, ""));
}

v1::ExecEnded ReapExec(pid_t pid) {
  v1::ExecEnded ended;
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    ended.set_signal(static_cast<uint32_t>(WTERMSIG(status)));
  } else {
    ended.set_exit_code(WEXITSTATUS(status));
  }
  return ended;
}

}  // namespace muster::worker
