#include "client/machine/child_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/kernel/pipe_signal.h"
#include "common/kernel/process_start.h"
#include "common/text/strings.h"

extern char** environ;

namespace muster::client {
namespace {

using std::chrono::steady_clock;

constexpr size_t kErrorBytesMax = 4 * 1024;
constexpr int kReadsAtEnd = 20;  // of kErrorBytesMax: more than the 64 KiB of a pipe

// This process's ends of the three streams; each is closed when it is over.
struct Streams {
  common::UniqueFd input;
  common::UniqueFd output;
  common::UniqueFd errors;
};

// Makes `fd` invalid at the end of the stream, or if it would block.
void ReadSome(common::UniqueFd* fd, size_t most, std::string* text) {
  char buffer[4096];
  const ssize_t count = read(fd->get(), buffer, std::min(sizeof(buffer), most));
  if (count > 0) {
    text->append(buffer, static_cast<size_t>(count));
  } else if (count == 0 || errno != EINTR) {
    fd->Reset();
  }
}

// A child that has exited, or reads no more, is not an error here: its exit status tells.
void WriteSome(common::UniqueFd* fd, std::string_view* input) {
  const ssize_t count = write(fd->get(), input->data(), input->size());
  if (count > 0) input->remove_prefix(static_cast<size_t>(count));
  if (input->empty() || (count < 0 && errno != EINTR && errno != EAGAIN)) fd->Reset();
}

void ReadErrors(Streams* streams, ChildOutput* output) {
  ReadSome(&streams->errors, kErrorBytesMax, &output->errors);
  if (output->errors.size() > kErrorBytesMax)
    output->errors.erase(0, output->errors.size() - kErrorBytesMax);
}

// Reads until the end of its stdout, `bytes_max` of it, or the deadline; false at the deadline. Processes
// that it leaves in the background may keep stderr open (ssh's ControlPersist).
bool Converse(Streams* streams, steady_clock::time_point deadline, const ChildCommand& command,
              ChildOutput* output) {
  std::string_view input = command.input;
  while (streams->output.valid()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
    // poll passes over negative descriptors.
    pollfd waited[] = {{streams->output.get(), POLLIN, 0},
                       {streams->errors.get(), POLLIN, 0},
                       {streams->input.get(), POLLOUT, 0}};
    const int ready =
        poll(waited, std::size(waited), static_cast<int>(std::max<int64_t>(0, left.count())));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    if (waited[0].revents != 0)
      ReadSome(&streams->output, command.bytes_max - output->text.size(), &output->text);
    if (output->text.size() == command.bytes_max) return true;
    if (waited[1].revents != 0) ReadErrors(streams, output);
    if (waited[2].revents != 0) WriteSome(&streams->input, &input);
  }
  output->whole = true;
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

}  // namespace

std::string FindInDirectories(const std::string& name, const std::string& path_variable) {
  for (const absl::string_view directory : absl::StrSplit(path_variable, ':', absl::SkipEmpty())) {
    const std::string path = common::StrCat(common::FromAbsl(directory), "/", name);
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

absl::StatusOr<ChildOutput> OutputOfChild(const ChildCommand& command) {
  common::Pipe input, text, errors;
  if (!input.Open() || !text.Open() || !errors.Open())
    return common::ErrnoStatus("cannot make a pipe");
  fcntl(input.to.get(), F_SETFL, O_NONBLOCK);
  // A child that does not read its input must not end jobctl.
  const common::PipeSignalHeld held;
  const pid_t pid = common::StartProcess({.program = command.argv[0],
                                          .argv = command.argv,
                                          .env = command.environment,
                                          .fds = {{.as = STDIN_FILENO, .ours = input.from.get()},
                                                  {.as = STDOUT_FILENO, .ours = text.to.get()},
                                                  {.as = STDERR_FILENO, .ours = errors.to.get()}},
                                          .apart = common::ChildSetup::Apart::kGroup});
  errno = -pid;
  if (pid < 0) return common::ErrnoStatus("cannot be started");
  for (common::UniqueFd* end : {&input.from, &text.to, &errors.to}) end->Reset();
  Streams streams{std::move(input.to), std::move(text.from), std::move(errors.from)};
  if (command.input.empty()) streams.input.Reset();
  ChildOutput output;
  const auto deadline = steady_clock::now() + command.limit;
  const bool in_time = Converse(&streams, deadline, command, &output);
  const bool enough = in_time && !output.whole;
  streams.input.Reset();
  const bool ended = Reap(pid, enough ? steady_clock::now() : deadline, &output.status);
  if (!enough && !ended) {
    return absl::DeadlineExceededError(
        common::StrCat("does not end within ", command.limit.count() / 1000, " s"));
  }
  // Reads its last output from the pipe, without waiting for processes that it left in the background.
  fcntl(streams.errors.get(), F_SETFL, O_NONBLOCK);
  for (int i = 0; i < kReadsAtEnd && streams.errors.valid(); ++i) ReadErrors(&streams, &output);
  return output;
}

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  return variables;
}

}  // namespace muster::client
