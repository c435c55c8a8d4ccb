#include "client/terminal/signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cctype>
#include <mutex>
#include <thread>
#include <utility>

#include "client/command_line/errors.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

struct Name {
  int number;
  std::string_view name;
};
constexpr Name kNames[] = {
    {SIGHUP, "HUP"},   {SIGINT, "INT"},   {SIGQUIT, "QUIT"}, {SIGILL, "ILL"},   {SIGTRAP, "TRAP"},
    {SIGABRT, "ABRT"}, {SIGBUS, "BUS"},   {SIGFPE, "FPE"},   {SIGKILL, "KILL"}, {SIGUSR1, "USR1"},
    {SIGSEGV, "SEGV"}, {SIGUSR2, "USR2"}, {SIGPIPE, "PIPE"}, {SIGALRM, "ALRM"}, {SIGTERM, "TERM"},
    {SIGCHLD, "CHLD"}, {SIGCONT, "CONT"}, {SIGSTOP, "STOP"}, {SIGTSTP, "TSTP"}, {SIGTTIN, "TTIN"},
    {SIGTTOU, "TTOU"}, {SIGURG, "URG"},   {SIGXCPU, "XCPU"}, {SIGXFSZ, "XFSZ"}, {SIGWINCH, "WINCH"},
    {SIGSYS, "SYS"},
};

class Handler {
 public:
  void Set(std::function<void(int, int)> function) {
    std::lock_guard lock(mutex_);
    function_ = std::move(function);
  }
  void Call(int number, int count) {
    std::function<void(int, int)> function;
    {
      std::lock_guard lock(mutex_);
      function = function_;
    }
    function(number, count);
  }

 private:
  std::mutex mutex_;  // guards what follows
  std::function<void(int, int)> function_ = [](int number, int) { _exit(128 + number); };
};

// Never destroyed: the thread may outlive main.
Handler& TheHandler() {
  static Handler* const handler = new Handler;
  return *handler;
}

}  // namespace

absl::StatusOr<int> ParseSignal(std::string_view text) {
  std::string upper;
  for (const char c : text) upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string_view name = upper;
  if (name.starts_with("SIG")) name.remove_prefix(3);
  std::string_view all[std::size(kNames)];
  size_t count = 0;
  for (const Name& each : kNames) {
    if (each.name == name) return each.number;
    all[count++] = each.name;
  }
  const absl::StatusOr<int64_t> number = common::ParseInteger(text);
  if (number.ok() && *number >= 1 && *number <= SIGRTMAX) return static_cast<int>(*number);
  return Usage("JC1004",
               common::StrCat("\"", text, "\" is not a signal",
                              common::DidYouMean(common::Nearest(name, all))),
               "jobctl signal JOB USR1");
}

std::vector<std::string_view> SignalNames() {
  std::vector<std::string_view> names;
  for (const Name& each : kNames) names.push_back(each.name);
  return names;
}

std::string SignalName(int number) {
  for (const Name& each : kNames) {
    if (each.number == number) return common::StrCat("SIG", each.name);
  }
  return common::StrCat("signal ", number);
}

void WatchSignals() {
  static std::once_flag once;
  std::call_once(once, [] {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    std::thread([set] {
      for (int count = 1;; ++count) {
        int number = 0;
        if (sigwait(&set, &number) != 0) return;
        TheHandler().Call(number, count);
      }
    }).detach();
  });
}

void HandleSignals(std::function<void(int, int)> on_signal) {
  WatchSignals();
  TheHandler().Set(std::move(on_signal));
}

}  // namespace muster::client
