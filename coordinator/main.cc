// The muster-coordinator process: command line, signals, and the one-sentence error it fails with.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "common/base/freed_memory.h"
#include "common/base/lock_checks.h"
#include "common/files/files.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/status_wire.h"
#include "common/text/strings.h"
#include "coordinator/care/commands.h"
#include "coordinator/config/config.h"
#include "coordinator/coordinator.h"
#include "coordinator/http/http_service.h"
#include "coordinator/init_command.h"
#include "coordinator/migrate_command.h"
#include "coordinator/standing_by.h"
#include "identity/tls_versions.h"

namespace muster::coordinator {
namespace {

constexpr int kFailedExit = 1;

// Why the daemon should exit, from any thread, and the descriptor that wakes main.
class StopRequest {
 public:
  StopRequest() : event_(eventfd(0, EFD_CLOEXEC)) {}
  void Say(const absl::Status& status) {
    {
      std::lock_guard lock(mutex_);
      if (status_.ok()) status_ = status;
    }
    const uint64_t one = 1;
    if (write(event_, &one, sizeof one) < 0) std::perror("muster-coordinator: eventfd");
  }
  absl::Status Why() {
    std::lock_guard lock(mutex_);
    return status_;
  }
  int Descriptor() const { return event_; }

 private:
  const int event_;
  std::mutex mutex_;  // guards what follows
  absl::Status status_;
};

// Called before any thread exists, so that all of them leave these signals to main.
int BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, number);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  // Hitting the file size limit (ulimit -f) must be a write error, not the end of the daemon.
  signal(SIGXFSZ, SIG_IGN);
  return signalfd(-1, &signals, SFD_CLOEXEC);
}

// False: the daemon should exit. True: `leads` was signaled first.
bool WaitForStop(int signals, const StopRequest& request, int leads = -1) {
  pollfd sources[] = {{.fd = signals, .events = POLLIN},
                      {.fd = request.Descriptor(), .events = POLLIN},
                      {.fd = leads, .events = POLLIN}};
  while (true) {
    if (poll(sources, 3, -1) < 0) continue;
    if (sources[1].revents != 0) return false;
    if (sources[2].revents != 0) return true;
    if (sources[0].revents == 0) continue;
    signalfd_siginfo info{};
    if (read(signals, &info, sizeof info) != sizeof info) continue;
    // Closing the terminal does not stop a daemon.
    if (info.ssi_signo == SIGHUP) continue;
    common::LogInfo(common::StrCat("asked to stop signal=", info.ssi_signo));
    return false;
  }
}

// For the parent process, if it still listens: on a full disk the log may be empty. Writes nothing
// on success, and a StatusDetails on failure.
void Report(const Config& config, const absl::Status& status) {
  if (config.report_fd < 0) return;
  common::WriteAll(config.report_fd, common::ToWire(status).details).IgnoreError();
  close(config.report_fd);
}

int Fail(const Config& config, const absl::Status& status) {
  const std::string message(status.message());
  std::fprintf(stderr, "muster-coordinator: %s\n", message.c_str());
  if (!config.log_file.empty()) common::LogError(message);
  Report(config, status);
  return common::CodeOf(status) == "JC1604" ? kLockedExit : kFailedExit;
}

void WarnOfPlaintext(const Config& config) {
  if (!config.listen.empty() && !config.is_secured) {
    common::LogWarning(common::StrCat("--insecure-plaintext: ", config.listen,
                                      " is served without encryption, and anyone who can reach it "
                                      "can run commands on the nodes"));
  }
  for (const std::string& each : config.http) {
    if (http::IsLocalOnly(each) || config.is_secured) continue;
    common::LogWarning(
        common::StrCat("--insecure-plaintext: HTTP on ", each,
                       " is not encrypted: who can listen in can take over sessions"));
  }
}

int Main(int argc, char** argv) {
  const ParsedFlags flags = ParseFlags(argc, argv);
  if (flags.stop) {
    std::fputs(flags.text.c_str(), flags.exit_code == 0 ? stdout : stderr);
    return flags.exit_code;
  }
  const Config& config = flags.config;
  umask(0077);
  // Not inherited by the worker that we start; also, its reader may exit before we write.
  if (config.report_fd >= 0) fcntl(config.report_fd, F_SETFD, FD_CLOEXEC);
  const int signals = BlockSignals();  // first: a log without a reader is a SIGPIPE
  const absl::Status log =
      common::OpenLog("muster-coordinator", config.log_file, common::LogLevel::kInfo);
  if (!log.ok()) {
    std::fprintf(stderr, "muster-coordinator: %s\n", std::string(log.message()).c_str());
    return kFailedExit;
  }
  WarnOfPlaintext(config);
  StopRequest request;
  const auto stop = [&request](const absl::Status& why) { request.Say(why); };
  StopRequest leads;
  std::atomic<bool> is_stopping = false;
  std::unique_ptr<StandingBy> among;  // the other coordinators; null: this one is alone
  std::optional<Leading> leading;
  if (!config.head.state.empty()) {
    auto standing = StandingBy::Start(config, {.leads = [&leads] { leads.Say(absl::OkStatus()); },
                                               .failed = stop,
                                               .step_down =
                                                   [argv, &is_stopping](const absl::Status& why) {
                                                     // Not even if etcd is stopped along with it.
                                                     if (is_stopping) _exit(kFailedExit);
                                                     StartOver(argv, why);
                                                   }});
    if (!standing.ok()) return Fail(config, standing.status());
    among = *std::move(standing);
    Report(config, absl::OkStatus());
    if (!WaitForStop(signals, request, leads.Descriptor())) {
      among->Resign();
      return request.Why().ok() ? 0 : Fail(config, request.Why());
    }
    leading.emplace(among->Lead());
  }
  auto coordinator = Coordinator::Start(config, stop, leading.has_value() ? &*leading : nullptr);
  if (!coordinator.ok()) {
    if (among != nullptr) among->Resign();
    return Fail(config, coordinator.status());
  }
  if (among == nullptr) Report(config, absl::OkStatus());
  WaitForStop(signals, request);
  is_stopping = true;
  absl::Status why = request.Why();
  if (why.ok() && !(why = (*coordinator)->CannotRecord()).ok()) (*coordinator)->StopWorker();
  if (!why.ok()) {
    if (among != nullptr) among->Resign();
    // The disk cannot be trusted: write nothing more; recovery happens at the next start.
    const std::string message(why.message());
    std::fprintf(stderr, "muster-coordinator: %s\n", message.c_str());
    if (!config.log_file.empty()) common::LogError(message);
    _exit(kFailedExit);
  }
  (*coordinator)->Shutdown();
  if (among != nullptr) among->Resign();
  return 0;
}

}  // namespace
}  // namespace muster::coordinator

int main(int argc, char** argv) {
  muster::common::KeepFreedMemory();
  muster::common::LeaveOutLockChecks();
  muster::identity::SpeakTls13Only();
  std::optional<int> done = muster::coordinator::RunInitCommand(argc, argv);
  if (!done.has_value()) done = muster::coordinator::RunMigrateCommand(argc, argv);
  if (!done.has_value()) done = muster::coordinator::RunCareCommand(argc, argv);
  return done.has_value() ? *done : muster::coordinator::Main(argc, argv);
}
