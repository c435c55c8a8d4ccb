// live_screen: signal handlers use one static record and only async-signal-safe functions (write,
// tcsetattr, raise …).
#include "client/terminal/live_screen.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

#include "client/command_line/errors.h"
#include "client/terminal/screen_frame.h"
#include "client/terminal/signals.h"

namespace muster::client {
namespace {

constexpr std::string_view kEnter = "\033[?1049h\033[?25l\033[H";  // alternate screen, no cursor
constexpr std::string_view kLeave = "\033[?25h\033[?1049l";
// Signals that kill the process without going through WatchSignals: the last chance to restore.
constexpr int kFatal[] = {SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

struct ScreenState {
  termios before{};
  termios raw{};
  std::atomic<bool> is_raw = false;
  std::atomic<int> end_signal = 0;
  std::atomic<bool> is_stale = true;  // the screen may no longer show what was drawn
  int wake[2] = {-1, -1};
};
ScreenState g_screen;

void SayNow(std::string_view text) {
  [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
}

void WakeScreen() {
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = write(g_screen.wake[1], &byte, 1);
}

bool IsForeground() { return tcgetpgrp(STDIN_FILENO) == getpgrp(); }

void EnterRaw() {
  if (!IsForeground() || g_screen.is_raw.exchange(true)) return;
  tcsetattr(STDIN_FILENO, TCSANOW, &g_screen.raw);
  SayNow(kEnter);
  g_screen.is_stale = true;
}

void LeaveRaw() {
  if (!g_screen.is_raw.exchange(false)) return;
  SayNow(kLeave);
  tcsetattr(STDIN_FILENO, TCSANOW, &g_screen.before);
}

void OnStop(int) {
  const int saved = errno;
  LeaveRaw();
  raise(SIGSTOP);  // returns when the process is continued; OnContinue has run or is about to
  errno = saved;
}

void OnContinue(int) {
  const int saved = errno;
  g_screen.is_raw = false;  // a shell resets the terminal of a job that it stopped
  EnterRaw();
  WakeScreen();
  errno = saved;
}

void OnResize(int) {
  const int saved = errno;
  g_screen.is_stale = true;
  WakeScreen();
  errno = saved;
}

void OnFatal(int number) {
  LeaveRaw();
  signal(number, SIG_DFL);
  raise(number);
}

void HandleBy(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

// Takes the first key from the typed bytes. Drops an unknown or truncated sequence.
LiveScreen::Event TakeKeyPress(std::string* typed) {
  using Key = LiveScreen::Key;
  static constexpr struct {
    std::string_view bytes;
    Key key;
  } kKeys[] = {{"\033[A", Key::kUp},   {"\033[B", Key::kDown},    {"\033OA", Key::kUp},
               {"\033OB", Key::kDown}, {"\033[5~", Key::kPageUp}, {"\033[6~", Key::kPageDown},
               {"\033[H", Key::kHome}, {"\033[F", Key::kEnd},     {"\033[1~", Key::kHome},
               {"\033[4~", Key::kEnd}};
  for (const auto& [sequence, key] : kKeys) {
    if (!typed->starts_with(sequence)) continue;
    typed->erase(0, sequence.size());
    return {.key = key};
  }
  const char first = typed->front();
  typed->erase(0, first == '\033' ? std::string::npos : 1);
  return first == '\033' ? LiveScreen::Event{}
                         : LiveScreen::Event{.key = Key::kCharacter, .character = first};
}

}  // namespace

absl::Status LiveScreen::Open() {
  if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1 ||
      tcgetattr(STDIN_FILENO, &g_screen.before) != 0) {
    return Usage("JC1004", "a live view needs a terminal for input and output",
                 "jobctl top --once, or jobctl ls");
  }
  if (g_screen.wake[0] < 0 && pipe2(g_screen.wake, O_CLOEXEC | O_NONBLOCK) != 0) {
    return absl::UnavailableError("no descriptor is free for the live view; fix: close some");
  }
  g_screen.raw = g_screen.before;
  g_screen.raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  g_screen.raw.c_cc[VMIN] = 1;
  g_screen.raw.c_cc[VTIME] = 0;
  fflush(stdout);
  HandleBy(SIGTSTP, OnStop);
  HandleBy(SIGCONT, OnContinue);
  HandleBy(SIGWINCH, OnResize);
  for (const int number : kFatal) HandleBy(number, OnFatal);
  HandleSignals([](int number, int count) {
    if (count > 1) {  // the first one had no effect
      LeaveRaw();
      _exit(128 + number);
    }
    g_screen.end_signal = number;
    WakeScreen();
  });
  is_open_ = true;
  EnterRaw();
  return absl::OkStatus();
}

LiveScreen::~LiveScreen() {
  if (!is_open_) return;
  LeaveRaw();
  for (const int number : {SIGTSTP, SIGCONT, SIGWINCH}) signal(number, SIG_DFL);
  for (const int number : kFatal) signal(number, SIG_DFL);
  HandleSignals([](int number, int) { _exit(128 + number); });
}

void LiveScreen::Draw(const std::string& text) {
  if (!IsForeground()) return;
  if (g_screen.is_stale.exchange(false)) shown_.clear();
  std::vector<std::string> lines = FrameLines(text);
  const std::string out = FrameUpdate(shown_, lines);
  shown_ = std::move(lines);
  for (std::string_view rest = out; !rest.empty();) {
    const ssize_t written = write(STDOUT_FILENO, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

LiveScreen::Event LiveScreen::KeyPress() {
  constexpr char kControlL = 'L' & 0x1F;
  const Event event = TakeKeyPress(&typed_);
  if (event.key != Key::kCharacter || event.character != kControlL) return event;
  g_screen.is_stale = true;  // a person saw that something else wrote to the screen
  return {};
}

LiveScreen::Event LiveScreen::Next(int timeout_ms) {
  if (!typed_.empty()) timeout_ms = 0;  // still polls: a signal takes precedence
  pollfd fds[] = {{g_screen.wake[0], POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
  poll(fds, IsForeground() ? 2 : 1, timeout_ms);  // a background process must not read
  if (const int number = g_screen.end_signal; number != 0) {
    return {.key = Key::kSignal, .signal = number};
  }
  if ((fds[0].revents & POLLIN) != 0) {
    char drained[64];
    while (read(g_screen.wake[0], drained, sizeof drained) > 0) {
    }
    return {};
  }
  if (!typed_.empty()) return KeyPress();
  if (fds[1].revents == 0) return {};
  char bytes[64];
  const ssize_t count = read(STDIN_FILENO, bytes, sizeof bytes);
  if (count > 0) {
    typed_.assign(bytes, static_cast<size_t>(count));
    return KeyPress();
  }
  // The terminal is gone: treated like a hangup.
  return count == 0 || errno != EINTR ? Event{.key = Key::kSignal, .signal = SIGHUP} : Event{};
}

}  // namespace muster::client
