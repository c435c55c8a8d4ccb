// bounded_command: posix_spawn, two pipes, poll, SIGKILL.
#include "worker/bounded_command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "common/clock.h"
#include "common/files.h"
#include "common/spawn_attributes.h"
#include "common/strings.h"

namespace muster::worker {
namespace {

constexpr int64_t kSliceMs = 100;    // how soon a stop is noticed
constexpr int64_t kDrainMs = 1'000;  // for what it printed last, once it has ended

struct OutputPipe {
  common::UniqueFd read_end;
  common::UniqueFd write_end;
  bool Open() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) return false;
    read_end = common::UniqueFd(fds[0]);
    write_end = common::UniqueFd(fds[1]);
    return true;
  }
};

// For posix_spawn; the strings stay the vector's.
std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// The child's pid, or minus an errno.
pid_t SpawnWithPipes(const BoundedCommand& command, const OutputPipe& out, const OutputPipe& err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write_end.get(), STDERR_FILENO);
  int first_closed = STDERR_FILENO + 1;
  if (command.passed_fd >= 0) {
    posix_spawn_file_actions_adddup2(&actions, command.passed_fd, first_closed++);
  }
  posix_spawn_file_actions_addclosefrom_np(&actions, first_closed);
  if (!command.workdir.empty())
    posix_spawn_file_actions_addchdir_np(&actions, command.workdir.c_str());
  const common::SpawnAttributes attributes(POSIX_SPAWN_SETSID);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, command.program.c_str(), &actions, attributes.get(),
                                Pointers(command.argv).data(), Pointers(command.env).data());
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? pid : -error;
}

// False: the stream has ended.
bool ReadPipe(int fd, const BoundedCommand& command, std::string* text) {
  char buffer[16 * 1024];
  const ssize_t count = read(fd, buffer, sizeof buffer);
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  if (command.output) {
    command.output({buffer, static_cast<size_t>(count)});
    return count > 0;
  }
  const size_t room = command.bytes_max - std::min(command.bytes_max, text->size());
  text->append(buffer, std::min(static_cast<size_t>(count), room));
  return count > 0;
}

// It stays a zombie.
bool HasEnded(pid_t pid) {
  siginfo_t ended{};
  return waitid(P_PID, pid, &ended, WEXITED | WNOWAIT | WNOHANG) != 0 || ended.si_pid != 0;
}

// The time in which this process ran, asked for often: a node that stood still did not give the
// command that time.
class RanTime {
 public:
  int64_t Ms() {
    const int64_t now_ms = common::MonotonicMs();
    ran_ms_ += std::min(now_ms - seen_ms_, kSeldomMs);
    seen_ms_ = now_ms;
    return ran_ms_;
  }

 private:
  static constexpr int64_t kSeldomMs = 1'000;
  int64_t seen_ms_ = common::MonotonicMs();
  int64_t ran_ms_ = 0;
};

bool IsStopped(const BoundedCommand& command) { return command.stop != nullptr && *command.stop; }

// True if both streams ended in time, or are not waited for any longer.
bool ReadBoth(const BoundedCommand& command, pid_t pid, const OutputPipe& out,
              const OutputPipe& err, CommandOutput* output) {
  RanTime ran;
  int64_t drained_ms = INT64_MAX;
  pollfd fds[2] = {{out.read_end.get(), POLLIN, 0}, {err.read_end.get(), POLLIN, 0}};
  std::string* const texts[2] = {&output->out, &output->err};
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    const int64_t left = command.timeout_ms - ran.Ms();
    if (left <= 0 || IsStopped(command)) return false;
    if (command.tick) command.tick();
    if (command.ends_with_leader && drained_ms == INT64_MAX && HasEnded(pid))
      drained_ms = ran.Ms() + kDrainMs;
    if (ran.Ms() >= drained_ms) return true;
    if (poll(fds, 2, static_cast<int>(std::min(left, kSliceMs))) < 0 && errno != EINTR)
      return false;
    for (int i = 0; i < 2; ++i) {
      if (fds[i].revents != 0 && !ReadPipe(fds[i].fd, command, texts[i])) fds[i].fd = -1;
      fds[i].revents = 0;
    }
  }
  return true;
}

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status)) {
    return common::StrCat("it was killed by signal ", WTERMSIG(status), " (",
                          strsignal(WTERMSIG(status)), ")");
  }
  const int code = WEXITSTATUS(status);
  return code == 0 ? "" : common::StrCat("it exited with ", code);
}

}  // namespace

CommandOutput RunBounded(const BoundedCommand& command) {
  CommandOutput output;
  OutputPipe out, err;
  if (!out.Open() || !err.Open()) {
    output.problem = "no descriptor is free";
    return output;
  }
  const pid_t pid = SpawnWithPipes(command, out, err);
  if (pid < 0) {
    output.problem = common::StrCat("it cannot be started: ", std::strerror(-pid));
    return output;
  }
  out.write_end.Reset();
  err.write_end.Reset();
  bool in_time = ReadBoth(command, pid, out, err, &output);
  // Also when its output has ended: what closes its streams and stays must not hold us up. It is
  // not reaped before its group is killed, so that the number is still its own.
  RanTime ran;
  const int64_t kill_at_ms = in_time ? command.timeout_ms : 0;
  while (!HasEnded(pid)) {
    if (command.tick) command.tick();
    if (ran.Ms() >= kill_at_ms || IsStopped(command)) {
      in_time = false;
      if (command.kill_it) command.kill_it(pid);
      kill(-pid, SIGKILL);
    }
    poll(nullptr, 0, 1);
  }
  kill(-pid, SIGKILL);
  if (command.kill_rest) command.kill_rest(pid);
  int status = 0;
  waitpid(pid, &status, 0);
  if (in_time && WIFEXITED(status)) output.exit_code = WEXITSTATUS(status);
  output.is_late = !in_time && !IsStopped(command);
  output.problem = in_time
                       ? HowItEnded(status)
                       : common::StrCat("it took longer than ", command.timeout_ms / 1000.0, " s");
  return output;
}

CommandOutput RunBounded(const std::vector<std::string>& argv, int timeout_ms, size_t bytes_max) {
  BoundedCommand command{.program = argv[0],
                         .argv = argv,
                         .env = {},
                         .workdir = "",
                         .timeout_ms = timeout_ms,
                         .bytes_max = bytes_max};
  for (const char* name : {"PATH", "HOME"}) {
    if (const char* value = getenv(name)) command.env.push_back(common::StrCat(name, "=", value));
  }
  return RunBounded(command);
}

}  // namespace muster::worker
