#include "client/files/exec_pump.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <string>
#include <utility>

#include "client/terminal/raw_terminal.h"

namespace muster::client {
namespace {

constexpr size_t kInputBytes = 32 * 1024;  // of one message

sigset_t WindowSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGWINCH);
  return set;
}

}  // namespace

void HoldWindowSignals() {
  const sigset_t set = WindowSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

ExecPump::ExecPump(ExecCall& call, What what)
    : call_(call), what_(what), wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  const sigset_t set = WindowSignals();
  if (what_.window) window_ = common::UniqueFd(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  thread_ = std::thread([this] { Run(); });
}

ExecPump::~ExecPump() {
  is_ending_ = true;
  Signal(0);
  thread_.join();
}

void ExecPump::Signal(int number) {
  if (number > 0) signal_ = number;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
}

void ExecPump::Run() {
  bool has_input = what_.input;
  while (!is_ending_) {
    pollfd fds[] = {{wake_.get(), POLLIN, 0},
                    {has_input ? STDIN_FILENO : -1, POLLIN, 0},
                    {window_.valid() ? window_.get() : -1, POLLIN, 0}};
    if (poll(fds, std::size(fds), -1) < 0 && errno != EINTR) return;
    if (fds[0].revents != 0) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = read(wake_.get(), &count, sizeof count);
      v1::ExecInput message;
      message.set_signal(static_cast<uint32_t>(signal_.exchange(0)));
      if (message.signal() > 0 && !call_.Write(message)) return;
    }
    if (fds[2].revents != 0 && !SendWindow()) return;
    if (fds[1].revents != 0) has_input = SendInput();
  }
}

bool ExecPump::SendWindow() {
  signalfd_siginfo ignored;
  while (read(window_.get(), &ignored, sizeof ignored) > 0) {
  }
  v1::ExecInput message;
  *message.mutable_size() = TerminalOfPerson();
  return call_.Write(message);
}

bool ExecPump::SendInput() {
  std::string bytes(kInputBytes, '\0');
  const ssize_t count = read(STDIN_FILENO, bytes.data(), bytes.size());
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  v1::ExecInput message;
  if (count > 0) {
    bytes.resize(static_cast<size_t>(count));
    message.set_stdin(std::move(bytes));
  } else {
    message.set_stdin_end(true);
  }
  return call_.Write(message) && count > 0;
}

}  // namespace muster::client
