// bounded_command: two pipes, poll, SIGKILL.
#include "worker/base/bounded_command.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "common/base/clock.h"
#include "common/kernel/process_start.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

using common::Pipe;

constexpr int64_t kSliceMs = 100;    // how soon a stop is noticed
constexpr int64_t kDrainMs = 1'000;  // to read its last output after its exit

// The child's pid, or a negative errno.
pid_t StartWithPipes(const BoundedCommand& command, const Pipe& out, const Pipe& err) {
  common::ChildSetup start{.program = command.program,
                           .argv = command.argv,
                           .env = command.env,
                           .directory = command.workdir,
                           .fds = {common::NoInput(),
                                   {.as = STDOUT_FILENO, .ours = out.to.get()},
                                   {.as = STDERR_FILENO, .ours = err.to.get()}},
                           .closes_rest = true};
  if (command.passed_fd >= 0)
    start.fds.push_back({.as = STDERR_FILENO + 1, .ours = command.passed_fd});
  return common::StartProcess(start);
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

// Does not reap it: it stays a zombie.
bool HasEnded(pid_t pid) {
  siginfo_t ended{};
  return waitid(P_PID, pid, &ended, WEXITED | WNOWAIT | WNOHANG) != 0 || ended.si_pid != 0;
}

// Measures the time in which this process ran, and is called often: while the node was frozen, the
// command had no time.
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
bool ReadBoth(const BoundedCommand& command, pid_t pid, const Pipe& out, const Pipe& err,
              CommandOutput* output) {
  RanTime ran;
  int64_t drained_ms = INT64_MAX;
  pollfd fds[2] = {{out.from.get(), POLLIN, 0}, {err.from.get(), POLLIN, 0}};
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
  Pipe out, err;
  if (!out.Open() || !err.Open()) {
    output.problem = "no descriptor is free";
    return output;
  }
  const pid_t pid = StartWithPipes(command, out, err);
  if (pid < 0) {
    output.problem = common::StrCat("it cannot be started: ", std::strerror(-pid));
    return output;
  }
  out.to.Reset();
  err.to.Reset();
  bool in_time = ReadBoth(command, pid, out, err, &output);
  // The time limit also applies after its output has ended, because a process that closes its
  // streams and stays must not hold us up. It is not reaped before its group is killed, so that the
  // pid is still its own.
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
