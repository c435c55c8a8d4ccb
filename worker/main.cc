// muster-worker: the daemon of one node. Reads the command line, loads the state directory, probes
// the node, runs the control loop until SIGTERM or SIGINT. Its shims, and their ranks, outlive it.
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <random>
#include <string>
#include <utility>

#include "common/clock.h"
#include "common/files.h"
#include "common/log.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/version.h"
#include "worker/config.h"
#include "worker/control_loop.h"

namespace muster::worker {
namespace {

constexpr int kExitUsage = 2;
constexpr int kExitLocked = 3;
constexpr int kExitFailed = 1;
constexpr int kLockWaitMs = 1'000;
constexpr int kLockRetryMs = 10;

int Fail(int code, const absl::Status& status) {
  const std::string line = common::StrCat("muster-worker: ", std::string(status.message()));
  std::fprintf(stderr, "%s\n", line.c_str());
  common::LogError(line);
  return code;
}

// The directory of the sockets must be accessible only to us: another user must not be able to
// impersonate a shim.
absl::Status MakeRuntimeDir(const std::string& path) {
  RETURN_IF_ERROR(common::MakeDirectories(path, 0700));
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return common::ErrnoStatus(path);
  if (!S_ISDIR(info.st_mode) || info.st_uid != getuid() || (info.st_mode & 022) != 0) {
    return absl::PermissionDeniedError(common::StrCat(
        path, " is not exclusive to this user; fix: remove it or use another --runtime-dir"));
  }
  return absl::OkStatus();
}

// Makes SIGTERM and SIGINT readable; they must be blocked in every thread, so this runs before any
// thread starts.
int TakeSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // beyond ulimit -f a write fails, the daemon does not
  signal(SIGHUP, SIG_IGN);   // closing the terminal does not stop it
  return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

// A worker that was killed a moment ago may still hold it.
absl::StatusOr<common::UniqueFd> LockState(const std::string& path) {
  const int64_t deadline = common::MonotonicMs() + kLockWaitMs;
  while (true) {
    absl::StatusOr<common::UniqueFd> lock = common::LockFile(path);
    if (lock.ok() || !absl::IsFailedPrecondition(lock.status()) ||
        common::MonotonicMs() >= deadline) {
      return lock;
    }
    poll(nullptr, 0, kLockRetryMs);
  }
}

int Run(Config config) {
  const int stop_fd = TakeSignals();
  if (absl::Status checked = CheckConfig(&config); !checked.ok()) return Fail(kExitUsage, checked);
  if (absl::Status opened =
          common::OpenLog("muster-worker", config.log_file, common::LogLevel::kInfo);
      !opened.ok()) {
    return Fail(kExitFailed, opened);
  }
  const Paths paths(config.state_dir, config.runtime_dir);
  if (absl::Status made = common::MakeDirectories(paths.Attempts()); !made.ok()) {
    return Fail(kExitFailed, made);
  }
  absl::StatusOr<common::UniqueFd> lock = LockState(paths.Lock());
  if (!lock.ok()) {
    return Fail(
        kExitLocked,
        absl::FailedPreconditionError(common::StrCat(
            std::string(lock.status().message()),
            "; another worker is using this state directory; fix: use another --state-dir")));
  }
  if (absl::Status made = MakeRuntimeDir(config.runtime_dir); !made.ok()) {
    return Fail(kExitFailed, made);
  }
  absl::StatusOr<std::string> shim = FindHelper("muster-shim");
  if (!shim.ok()) return Fail(kExitFailed, shim.status());
  config.shim_binary = *shim;

  ControlLoop::Setup setup;
  setup.config = config;
  absl::StatusOr<LoadedIdentity> identity =
      LoadIdentity(paths, config.name, common::SystemClock().Read().wall_ms * 1000);
  if (!identity.ok()) return Fail(kExitFailed, identity.status());
  setup.identity = *identity;
  setup.limits = PrepareLimits(KernelCgroups());
  setup.cgroups = ProbeCgroups(setup.limits);
  absl::StatusOr<v1::NodeFacts> facts =
      MakeFacts(config, identity->identity, setup.cgroups, setup.limits);
  if (!facts.ok()) return Fail(kExitUsage, facts.status());
  setup.facts = *facts;
  setup.seed = std::random_device()();
  common::LogInfo(common::StrCat("worker started name=", config.name, " version=", common::kVersion,
                                 " incarnation=", identity->identity.incarnation,
                                 " state_dir=", config.state_dir, " kill_level=\"",
                                 facts->kill_level(), "\" limits=\"", facts->limits().how(), "\""));
  if (!identity->kept) {
    common::LogInfo(
        common::StrCat("a new incarnation: ", identity->why_new, " path=", paths.Identity()));
  }
  ControlLoop(std::move(setup), stop_fd).Run();
  common::LogInfo("worker exits; its ranks keep running");
  return 0;
}

}  // namespace
}  // namespace muster::worker

int main(int argc, char** argv) {
  muster::worker::ParsedFlags flags = muster::worker::ParseFlags(argc, argv);
  if (flags.stop) {
    std::fputs(flags.text.c_str(), flags.exit_code == 0 ? stdout : stderr);
    return flags.exit_code;
  }
  return muster::worker::Run(std::move(flags.config));
}
