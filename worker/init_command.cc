#include "worker/init_command.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/kernel/process_start.h"
#include "common/log.h"
#include "common/text/strings.h"
#include "worker/base/helper_program.h"
#include "worker/base/paths.h"
#include "worker/config.h"
#include "worker/limits/limit_host.h"

namespace muster::worker {
namespace {

using common::LogInfo;
using common::LogWarning;
using common::StrCat;

constexpr int kInitUsageExit = 2;
// A child in uninterruptible sleep does not hold up its container for longer.
constexpr int64_t kAfterKillMs = 1'000;

sigset_t HandledSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    sigaddset(&set, signal);
  }
  return set;
}

std::string EndText(int status) {
  return WIFSIGNALED(status) ? StrCat("signal=", WTERMSIG(status))
                             : StrCat("exit=", WEXITSTATUS(status));
}

// Its own process group: Ctrl-C reaches only init, which forwards it. Returns the pid, or a
// negative errno.
pid_t StartChild(const std::string& binary, const std::vector<std::string>& line) {
  return common::StartProcess(
      {.program = binary, .argv = line, .apart = common::ChildSetup::Apart::kGroup});
}

class Init {
 public:
  Init(InitOptions options, std::string binary)
      : options_(std::move(options)), binary_(std::move(binary)) {}

  int Run();

 private:
  void Prepare();
  void Start();
  void TakeSignals();
  void Stop(int signal);
  void Reap();
  void ChildEnded(int status);
  void OnTime();
  int WaitMs() const;
  std::vector<std::string> Line() const;

  const InitOptions options_;
  const std::string binary_;
  int signal_fd_ = -1;
  pid_t child_ = 0;
  bool joins_ = false;  // the child is `join`, not the worker
  int starts_ = 0;      // of the worker
  int64_t started_ms_ = 0, start_at_ms_ = 0;
  int64_t kill_at_ms_ = 0;  // 0: it has not been stopped
  bool killed_ = false;
  RestartPause pause_;
  int code_ = 0;  // of the last child
  bool over_ = false;
};

void Init::Prepare() {
  const sigset_t handled = HandledSignals();
  sigprocmask(SIG_BLOCK, &handled, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal_fd_ = signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
  CHECK(signal_fd_ >= 0);  // the first descriptor of a new process, before any job or peer
  // Process 1 gets orphans in any case. This gives them to us even if another process is process 1,
  // as with `docker run --init` or in a pod that shares its process namespace.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  LogInfo(StrCat("init started pid=", getpid(), " stop_within_ms=", options_.stop_within_ms));
  const std::string lack = EnterLeafForLimits(KernelCgroups());
  if (!lack.empty()) LogWarning(StrCat("ranks cannot be limited here reason=\"", lack, "\""));
}

std::vector<std::string> Init::Line() const {
  if (!joins_) {
    std::vector<std::string> line = {"muster-worker"};
    line.insert(line.end(), options_.worker.begin(), options_.worker.end());
    return line;
  }
  std::vector<std::string> line = {"muster-worker", "join",        options_.join,
                                   "--if-needed",   "--state-dir", options_.config.state_dir};
  if (!options_.token_file.empty()) line.insert(line.end(), {"--token-file", options_.token_file});
  if (!options_.config.name.empty()) line.insert(line.end(), {"--name", options_.config.name});
  return line;
}

void Init::Start() {
  joins_ = !options_.join.empty() && starts_ == 0 &&
           !common::Exists(Paths(options_.config.state_dir, "").Credentials());
  const std::vector<std::string> line = Line();
  started_ms_ = common::MonotonicMs();
  const pid_t pid = StartChild(binary_, line);
  if (pid < 0) {
    LogWarning(StrCat("cannot start ", binary_, ": ", std::strerror(-pid)));
    start_at_ms_ = started_ms_ + pause_.After(0);
    return;
  }
  child_ = pid;
  if (!joins_) ++starts_;
  LogInfo(StrCat("started ", joins_ ? "muster-worker join" : "muster-worker", " pid=", pid));
}

void Init::Stop(int signal) {
  if (kill_at_ms_ == 0) {
    kill_at_ms_ = common::MonotonicMs() + options_.stop_within_ms;
    LogInfo(StrCat("stopping signal=", signal));
  }
  if (child_ == 0) {
    over_ = true;
  } else {
    kill(child_, signal);
  }
}

void Init::TakeSignals() {
  signalfd_siginfo info{};
  while (read(signal_fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) continue;  // several may arrive as one, so Reap checks all children
    if (signal == SIGTERM || signal == SIGINT) {
      Stop(signal);
    } else if (child_ > 0) {
      kill(child_, signal);
    }
  }
}

void Init::Reap() {
  int status = 0;
  for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
    if (pid == child_) ChildEnded(status);
  }
}

void Init::ChildEnded(int status) {
  child_ = 0;
  code_ = ContainerCode(status);
  const int64_t now = common::MonotonicMs();
  // The worker refuses its flags or files, which the user who started the container has to see.
  const bool refused = !joins_ && starts_ == 1 && code_ == kInitUsageExit;
  if (kill_at_ms_ != 0 || refused) {
    over_ = true;
    return;
  }
  if (joins_ && code_ == 0) {
    start_at_ms_ = now;
    return;
  }
  const int64_t pause = pause_.After(now - started_ms_);
  start_at_ms_ = now + pause;
  LogWarning(StrCat(joins_ ? "muster-worker join" : "muster-worker", " has ended ", EndText(status),
                    " restart_in_ms=", pause, joins_ ? "" : "; its ranks continue"));
}

void Init::OnTime() {
  const int64_t now = common::MonotonicMs();
  if (kill_at_ms_ != 0) {
    if (!killed_ && now >= kill_at_ms_ && child_ > 0) {
      LogWarning(StrCat("muster-worker did not stop within_ms=", options_.stop_within_ms,
                        "; it is killed"));
      kill(child_, SIGKILL);
      killed_ = true;
    } else if (killed_ && now >= kill_at_ms_ + kAfterKillMs) {
      code_ = 128 + SIGKILL;
      over_ = true;
    }
  } else if (child_ == 0 && now >= start_at_ms_) {
    Start();
  }
}

// How long to wait until something is due; -1: only a signal matters.
int Init::WaitMs() const {
  int64_t due = 0;
  if (kill_at_ms_ != 0) {
    due = kill_at_ms_ + (killed_ ? kAfterKillMs : 0);
  } else if (child_ == 0) {
    due = start_at_ms_;
  } else {
    return -1;
  }
  return static_cast<int>(std::clamp<int64_t>(due - common::MonotonicMs(), 0, 60'000));
}

int Init::Run() {
  Prepare();
  while (!over_) {
    OnTime();
    if (over_) break;
    pollfd ready{.fd = signal_fd_, .events = POLLIN, .revents = 0};
    poll(&ready, 1, WaitMs());
    TakeSignals();
    Reap();
  }
  LogInfo(StrCat("init exits code=", code_));
  return code_;
}

}  // namespace

int64_t RestartPause::After(int64_t ran_ms) {
  if (ran_ms >= kHealthyMs) next_ms_ = kFirstMs;
  return std::exchange(next_ms_, std::min(next_ms_ * 2, kLongestMs));
}

int ContainerCode(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::optional<int> RunInitCommand(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "init") return std::nullopt;
  ParsedInit parsed = ParseInitFlags(argc - 1, argv + 1);
  if (parsed.stop) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  const absl::StatusOr<std::string> binary = FindHelper("muster-worker");
  if (!binary.ok()) {
    std::fprintf(stderr, "muster-worker init: %s\n", common::MessageOf(binary.status()).c_str());
    return kInitUsageExit;
  }
  common::OpenLog("muster-worker init", "", common::LogLevel::kInfo).IgnoreError();
  return Init(std::move(parsed.options), *binary).Run();
}

}  // namespace muster::worker
