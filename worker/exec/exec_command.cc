#include "worker/exec/exec_command.h"

#include <fcntl.h>
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

#include "common/hash/crc32c.h"
#include "common/kernel/process_start.h"
#include "common/kernel/shim_protocol.h"
#include "common/text/strings.h"
#include "worker/confinement/confined_command.h"
#include "worker/confinement/rank_account.h"
#include "worker/containers/find_in_image.h"
#include "worker/launch/launch_environment.h"
#include "worker/launch/marked_processes.h"
#include "worker/launch/shim_client.h"

namespace muster::worker {
namespace {

using common::StrCat;

constexpr int kNotStarted = 126;
constexpr int kNotFound = 127;
constexpr size_t kExecPidBytesMax = 32;
constexpr std::string_view kPathVariable = "PATH=";
constexpr std::string_view kTermVariable = "TERM=";
// Identifies processes that have left the command's session.
constexpr std::string_view kExecVariable = "MUSTER_EXEC";

bool NotStarted(int exit_code, std::string problem, v1::ExecEnded* ended) {
  ended->set_exit_code(exit_code);
  ended->set_problem(std::move(problem));
  return false;
}

// Includes the state directory, so that several workers on a host can tell theirs apart.
std::string ExecMark(const ExecSetup& setup, const std::string& session) {
  return StrCat(session, "-", common::Crc32c(setup.paths.StateDir()));
}

// Makes the rank's launch with this command in place of its program.
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

// The launch file that muster-shim reads to become the command.
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
  std::string terminal;  // its path, instead of the three streams
};

bool OpenPipe(common::UniqueFd* read_end, common::UniqueFd* write_end) {
  common::Pipe pipe;
  if (!pipe.Open()) return false;
  *read_end = std::move(pipe.from);
  *write_end = std::move(pipe.to);
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
  // Programs reopen the terminal by its name.
  if (account.is_other && chown(path, account.uid, account.gid) != 0) return false;
  process->in = common::UniqueFd(fcntl(process->out.get(), F_DUPFD_CLOEXEC, 0));
  child->terminal = path;
  SetTerminalSize(process->out.get(), order.terminal());
  return process->in.valid();
}

// The pid of the command. If it could not be started, returns `shim`, which has written the reason to the
// command's stderr and whose exit counts as the command's.
pid_t AwaitNumber(int pid_fd, pid_t shim) {
  pid_t pid = 0;
  ssize_t got = 0;
  while ((got = read(pid_fd, &pid, sizeof pid)) < 0 && errno == EINTR) continue;
  if (got != sizeof pid || pid == shim) return shim;
  while (waitpid(shim, nullptr, 0) < 0 && errno == EINTR) continue;
  return pid;
}

std::vector<common::ChildFd> StreamsOf(const ChildEnds& child) {
  if (child.terminal.empty()) {
    return {{.as = STDIN_FILENO, .ours = child.in.get()},
            {.as = STDOUT_FILENO, .ours = child.out.get()},
            {.as = STDERR_FILENO, .ours = child.err.get()}};
  }
  // The first terminal that a session's leader opens becomes its controlling terminal.
  return {{.as = STDIN_FILENO, .file = child.terminal, .flags = O_RDWR},
          {.as = STDOUT_FILENO, .same_as = STDIN_FILENO},
          {.as = STDERR_FILENO, .same_as = STDIN_FILENO}};
}

pid_t StartJoined(const std::string& shim, const ChildEnds& child, int launch_fd) {
  common::Pipe number;
  if (!number.Open()) return -errno;
  common::ChildSetup start{.program = shim,
                           .argv = {shim, common::kJoinArgument},
                           .env = std::vector<std::string>(),
                           .directory = "/",
                           .fds = StreamsOf(child),
                           .closes_rest = true};
  start.fds.push_back({.as = common::kConfinedFd, .ours = launch_fd});
  start.fds.push_back({.as = common::kJoinedPidFd, .ours = number.to.get()});
  const pid_t pid = common::StartProcess(start);
  if (pid < 0) return pid;
  number.to.Reset();
  return AwaitNumber(number.from.get(), pid);
}

void DoNotBlock(const common::UniqueFd& fd) {
  if (fd.valid()) fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
}

// Checks where the rank runs: on the node, or in its container.
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
  process->pid = StartJoined(setup.shim_binary, child, launch.get());
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
