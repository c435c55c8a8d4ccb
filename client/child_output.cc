#include "client/child_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/files.h"
#include "common/spawn_attributes.h"
#include "common/status.h"
#include "common/strings.h"

extern char** environ;

namespace muster::client {
namespace {

using std::chrono::steady_clock;

// Reads until the end of the pipe, `bytes_max` or the deadline; false at the deadline.
bool ReadPrinted(int fd, steady_clock::time_point deadline, size_t bytes_max, ChildOutput* output) {
  char buffer[4096];
  while (output->text.size() < bytes_max) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
    pollfd waited{fd, POLLIN, 0};
    const int ready = poll(&waited, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const size_t wanted = std::min(sizeof(buffer), bytes_max - output->text.size());
    const ssize_t count = read(fd, buffer, wanted);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      output->whole = true;
      return true;
    }
    output->text.append(buffer, static_cast<size_t>(count));
  }
  return true;
}

// False: it was killed at the deadline, with its group: a script's real program, too.
bool Reap(pid_t pid, steady_clock::time_point deadline, int* status) {
  bool killed = false;
  while (waitpid(pid, status, WNOHANG) == 0) {
    if (steady_clock::now() > deadline && !killed) {
      killed = true;
      kill(-pid, SIGKILL);
    }
    usleep(500);
  }
  return !killed;
}

std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

absl::StatusOr<ChildOutput> OutputOfChild(const ChildCommand& command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return common::ErrnoStatus("cannot make a pipe");
  const common::UniqueFd from(ends[0]);
  common::UniqueFd to(ends[1]);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, to.get(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  const common::SpawnAttributes attributes(POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  errno = posix_spawn(&pid, command.argv[0].c_str(), &files, attributes.get(),
                      Pointers(command.argv).data(), Pointers(command.environment).data());
  posix_spawn_file_actions_destroy(&files);
  if (errno != 0) return common::ErrnoStatus("cannot be started");
  to.Reset();
  ChildOutput output;
  const auto deadline = steady_clock::now() + command.limit;
  const bool in_time = ReadPrinted(from.get(), deadline, command.bytes_max, &output);
  const bool enough = in_time && !output.whole;
  const bool ended = Reap(pid, enough ? steady_clock::now() : deadline, &output.status);
  if (!enough && !ended) {
    return absl::DeadlineExceededError(
        common::StrCat("does not end within ", command.limit.count() / 1000, " s"));
  }
  return output;
}

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  return variables;
}

}  // namespace muster::client
