// muster-worker: the daemon of one node. Reads the command line, loads the state directory, probes
// the node, runs the control loop until SIGTERM or SIGINT. Its shims, and their ranks, outlive it.
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/base/freed_memory.h"
#include "common/base/lock_checks.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/device_kinds.h"
#include "common/files/files.h"
#include "common/log.h"
#include "common/reserved_ports.h"
#include "common/text/strings.h"
#include "worker/base/helper_program.h"
#include "worker/base/paths.h"
#include "worker/config.h"
#include "worker/confinement/isolation.h"
#include "worker/containers/container_tools.h"
#include "worker/control_loop.h"
#include "worker/init_command.h"
#include "worker/join_command.h"
#include "worker/membership/audit_heads.h"
#include "worker/membership/membership.h"

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

// A connection that goes out from such a port makes an attempt skip its block, or HCCL fail to bind it.
void WarnOfOpenPorts(const v1::NodeFacts& facts) {
  for (const common::DeviceKind& kind : common::DeviceKinds()) {
    const bool has_any =
        std::any_of(facts.devices().begin(), facts.devices().end(),
                    [&kind](const v1::Device& device) { return device.kind() == kind.name; });
    if (kind.ports == 0 || !has_any) continue;
    const common::PortSettings settings = common::ReadPortSettings();
    const common::PortSpan blocks = {kind.first_port, kind.last_port};
    const common::PortSpan open = common::OpenToConnections(settings, blocks);
    if (open.first == 0) continue;
    common::LogWarning(common::StrCat("the kernel may give ports of ", kind.name,
                                      " ranks to outgoing connections ports=", open.first, "-",
                                      open.last, " fix=\"",
                                      common::ReserveCommand(settings, blocks), "\""));
  }
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
  signal(SIGXFSZ, SIG_IGN);  // beyond ulimit -f only the write fails, not the daemon
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

// The node's enrolment, if it has one; fills in settings that the command line leaves out.
absl::StatusOr<std::unique_ptr<Membership>> OpenMembership(Config& config) {
  absl::StatusOr<std::unique_ptr<Membership>> membership =
      Membership::Open(Paths(config.state_dir, "").Credentials(), std::random_device()());
  if (absl::IsNotFound(membership.status())) {
    if (!config.coordinator.empty()) return std::unique_ptr<Membership>();
    return absl::InvalidArgumentError(
        "--coordinator is missing: name the coordinator, unix:/path or HOST:PORT, or join its "
        "cluster first: muster-worker join --help");
  }
  RETURN_IF_ERROR(membership.status());
  const identity::Credentials& credentials = *(*membership)->Now();
  if (config.coordinator.empty()) config.coordinator = credentials.endpoint;
  if (config.name.empty()) config.name = credentials.name;
  if (config.name == credentials.name) return membership;
  return absl::InvalidArgumentError(common::StrCat(
      "--name ", config.name, " is not the node that joined with ", config.state_dir, ", which is ",
      credentials.name, "; fix: leave --name out, or join again with another --state-dir"));
}

int Run(Config config) {
  const int stop_fd = TakeSignals();
  absl::StatusOr<std::unique_ptr<Membership>> membership = OpenMembership(config);
  if (!membership.ok()) return Fail(kExitUsage, membership.status());
  config.is_secured = *membership != nullptr;
  if (absl::Status checked = CheckConfig(&config); !checked.ok()) return Fail(kExitUsage, checked);
  if (absl::Status opened =
          common::OpenLog("muster-worker", config.log_file, common::LogLevel::kInfo);
      !opened.ok()) {
    return Fail(kExitFailed, opened);
  }
  const Paths paths(config.state_dir, config.runtime_dir);
  absl::Status made = MakeStateDirectory(paths);
  if (made.ok()) made = common::MakeDirectories(paths.Attempts());
  if (!made.ok()) return Fail(kExitFailed, made);
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
  if (absl::Status opened = OpenTheWay(config.run_as, paths); !opened.ok()) {
    return Fail(kExitUsage, opened);
  }
  absl::StatusOr<std::string> shim = FindHelper("muster-shim");
  if (!shim.ok()) return Fail(kExitFailed, shim.status());
  config.shim_binary = *shim;
  absl::StatusOr<std::string> rendezvous = FindHelper("muster-rendezvous");
  if (!rendezvous.ok()) return Fail(kExitFailed, rendezvous.status());
  config.rendezvous_binary = *rendezvous;

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
  setup.isolation = ProbeIsolation(config.run_as, config.sandbox_flag, config.shim_binary);
  *setup.facts.mutable_isolation() = setup.isolation.facts;
  const FoundContainers containers = FindContainers(paths.ToolVersions());
  setup.containers = containers.tools;
  *setup.facts.mutable_containers() = containers.facts;
  setup.seed = std::random_device()();
  setup.membership = *std::move(membership);
  common::LogInfo(common::StrCat(
      "worker started name=", config.name, " version=", common::kVersion,
      " incarnation=", identity->identity.incarnation, " state_dir=", config.state_dir,
      " kill_level=\"", facts->kill_level(), "\" limits=\"", facts->limits().how(),
      "\" run_as=", RunAsText(config.run_as), " sandbox=", setup.isolation.facts.level()));
  for (const std::string& lack : setup.isolation.facts.lacks()) {
    common::LogWarning(
        common::StrCat("ranks are less isolated than asked for lacks=\"", lack, "\""));
  }
  WarnOfOpenPorts(*facts);
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
  muster::common::KeepFreedMemory();
  muster::common::LeaveOutLockChecks();
  if (const std::optional<int> done = muster::worker::RunJoinCommand(argc, argv); done.has_value())
    return *done;
  if (const auto done = muster::worker::RunAuditHeadsCommand(argc, argv); done.has_value())
    return *done;
  if (const std::optional<int> done = muster::worker::RunInitCommand(argc, argv); done.has_value())
    return *done;
  muster::worker::ParsedFlags flags = muster::worker::ParseFlags(argc, argv);
  if (flags.stop) {
    std::fputs(flags.text.c_str(), flags.exit_code == 0 ? stdout : stderr);
    return flags.exit_code;
  }
  return muster::worker::Run(std::move(flags.config));
}
