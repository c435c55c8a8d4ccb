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
#include <cstdlib>
#include <cstring>

#include "common/clock.h"
#include "common/files.h"
#include "common/strings.h"

namespace muster::worker {
namespace {

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

// The child's pid, or minus an errno.
pid_t SpawnWithPipes(const std::vector<std::string>& argv, const OutputPipe& out,
                     const OutputPipe& err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write_end.get(), STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  std::vector<std::string> variables;
  for (const char* name : {"PATH", "HOME"}) {
    if (const char* value = getenv(name)) variables.push_back(common::StrCat(name, "=", value));
  }
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, words[0], &actions, &attributes, words.data(), environment.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? pid : -error;
}

// False: the stream has ended.
bool ReadPipe(int fd, size_t bytes_max, std::string* text) {
  char buffer[16 * 1024];
  const ssize_t count = read(fd, buffer, sizeof buffer);
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  const size_t room = bytes_max - std::min(bytes_max, text->size());
  text->append(buffer, std::min(static_cast<size_t>(count), room));
  return count > 0;
}

// True if both streams ended in time.
bool ReadBoth(const OutputPipe& out, const OutputPipe& err, int64_t deadline_ms, size_t bytes_max,
              CommandOutput* output) {
  pollfd fds[2] = {{out.read_end.get(), POLLIN, 0}, {err.read_end.get(), POLLIN, 0}};
  std::string* const texts[2] = {&output->out, &output->err};
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    const int64_t left = deadline_ms - common::MonotonicMs();
    if (left <= 0) return false;
    if (poll(fds, 2, static_cast<int>(left)) < 0 && errno != EINTR) return false;
    for (int i = 0; i < 2; ++i) {
      if (fds[i].revents != 0 && !ReadPipe(fds[i].fd, bytes_max, texts[i])) fds[i].fd = -1;
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

CommandOutput RunBounded(const std::vector<std::string>& argv, int timeout_ms, size_t bytes_max) {
  CommandOutput output;
  OutputPipe out, err;
  if (!out.Open() || !err.Open()) {
    output.problem = "no descriptor is free";
    return output;
  }
  const pid_t pid = SpawnWithPipes(argv, out, err);
  if (pid < 0) {
    output.problem = common::StrCat("it cannot be started: ", std::strerror(-pid));
    return output;
  }
  out.write_end.Reset();
  err.write_end.Reset();
  const bool in_time = ReadBoth(out, err, common::MonotonicMs() + timeout_ms, bytes_max, &output);
  // Also when its output has ended: what closes its streams and stays must not hold us up.
  if (!in_time) kill(pid, SIGKILL);
  int status = 0;
  const int64_t killed_at_ms = common::MonotonicMs() + timeout_ms;
  while (waitpid(pid, &status, in_time ? WNOHANG : 0) == 0) {
    if (common::MonotonicMs() > killed_at_ms) kill(pid, SIGKILL);
    poll(nullptr, 0, 1);
  }
  output.problem = in_time ? HowItEnded(status)
                           : common::StrCat("it took longer than ", timeout_ms / 1000.0, " s");
  return output;
}

}  // namespace muster::worker
