// From an order to a running shim: ports, directories, the check of the program, and the start. Part
// of AttemptProcesses (attempt_processes.h).
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/device_kinds.h"
#include "common/files/files.h"
#include "common/node_shortage.h"
#include "common/text/strings.h"
#include "worker/attempts/attempt_processes.h"
#include "worker/confinement/rank_token.h"
#include "worker/confinement/secret_files.h"
#include "worker/events/event_ledger.h"
#include "worker/launch/launch_record.h"
#include "worker/launch/prepared_place.h"
#include "worker/launch/rank_table.h"
#include "worker/limits/rank_groups.h"
#include "worker/rendezvous/rendezvous.h"

namespace muster::worker {
namespace {

constexpr int kDescriptorWaitMs = 100;
constexpr int kExitNoImage = 126;

std::string FixFor(const absl::Status& status) {
  if (absl::IsUnavailable(status))
    return "; fix: raise the worker's limit of open files (ulimit -n)";
  if (absl::IsAborted(status)) return "; fix: raise the node's limit of processes (ulimit -u)";
  return absl::IsResourceExhausted(status)
             ? "; fix: free space on the disk of that node's --state-dir"
             : "";
}

// Others on the node use up what the attempt needs; it is available again once they end.
bool IsShort(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsAborted(status);
}

AttemptEndedInput NeverLaunched(const AttemptKey& key, const std::string& failure, bool is_short,
                                v1::StopCause cause) {
  return {key, is_short ? common::kEndedForShortage : "never launched", failure,
          is_short ? v1::STOP_CAUSE_LAUNCH_INTERRUPTED : cause};
}

// Not synced: after a power failure the boot id already shows that the attempt is dead. Read back
// by ReadLaunchRecord.
absl::Status WriteLaunch(const std::string& path, const v1::LaunchAttempt& launch) {
  return common::WriteFileAtomically(path, EncodeLaunchRecord(launch));
}

// The form that is written to the disk: without the values of secrets.
v1::LaunchAttempt WithoutSecrets(v1::LaunchAttempt launch) {
  launch.clear_secrets();
  return launch;
}

}  // namespace

void AttemptProcesses::PrepareAttempt(const PrepareAttemptAction& action) {
  const v1::PrepareAttempt& order = action.order;
  if (order.has_spec()) {
    return preparations_.Start(action.key, order, [this, action](const PreparedNode& prepared) {
      if (!prepared.failure.empty()) {
        return callbacks_.input(AttemptPreparedInput{
            action.key, 0, prepared.failure, prepared.would_fail_again, prepared.preparation});
      }
      if (prepared.in_image) return OpenRendezvous(action, prepared.problem, prepared.preparation);
      CheckThenOpen(
          action, prepared.command, [account = prepared.account] { return account; },
          prepared.preparation);
    });
  }
  common::RankLaunch probe;
  probe.argv = {order.program()};
  probe.env = {common::StrCat("PATH=", order.search_path())};
  probe.workdir = order.workdir();
  const auto account = [run_as = setup_.run_as, node = setup_.node, owner = order.owner(),
                        name = order.account()] { return AccountFor(run_as, node, owner, name); };
  CheckThenOpen(action, std::move(probe), account, {});
}

void AttemptProcesses::CheckThenOpen(const PrepareAttemptAction& action, common::RankLaunch command,
                                     LaunchChecks::Account account, v1::Preparation preparation) {
  std::vector<common::RankLaunch> probe = {std::move(command)};
  checks_.Start(action.key, std::move(probe), std::move(account), {},
                [this, action, preparation = std::move(preparation)](
                    const std::optional<LaunchProblem>& problem, const auto&) {
                  OpenRendezvous(action, problem, preparation);
                });
}

void AttemptProcesses::OpenRendezvous(const PrepareAttemptAction& action,
                                      const std::optional<LaunchProblem>& problem,
                                      const v1::Preparation& preparation) {
  const v1::PrepareAttempt& order = action.order;
  if (problem && problem->launch_errno == ETIMEDOUT) {
    return callbacks_.input(AttemptPreparedInput{action.key, 0, problem->text});
  }
  if (problem) {
    SayUnlaunchable(action.key, order.first_rank(), *problem);
    return callbacks_.input(AttemptPreparedInput{action.key, 0, problem->text, true});
  }
  absl::StatusOr<std::unique_ptr<Rendezvous>> opened = RendezvousOf(order).open(order, ports_);
  const absl::Status leased =
      opened.ok() ? LeasePorts(action.key, order.device_kind()) : opened.status();
  if (!leased.ok()) {
    AttemptPreparedInput none{
        action.key, 0, common::StrCat("node ", setup_.node, ": ", common::MessageOf(leased))};
    none.is_short = true;
    return callbacks_.input(none);
  }
  if (*opened == nullptr)
    return callbacks_.input(AttemptPreparedInput{.key = action.key, .preparation = preparation});
  AttemptPreparedInput prepared{.key = action.key, .preparation = preparation};
  prepared.port = (*opened)->Port();
  prepared.secret = (*opened)->Secret();
  rendezvous_[action.key] = *std::move(opened);
  callbacks_.input(std::move(prepared));
}

absl::Status AttemptProcesses::LeasePorts(const AttemptKey& key, const std::string& device_kind) {
  const common::DeviceKind* kind = common::FindDeviceKind(device_kind);
  if (kind == nullptr || kind->ports == 0 || port_blocks_.contains(key)) return absl::OkStatus();
  ASSIGN_OR_RETURN(port_blocks_[key], LeasePortBlock(*kind, key.job - 1 + key.attempt));
  return absl::OkStatus();
}

// The exit of a rank that never started: the job's exit code is derived from it.
void AttemptProcesses::SayUnlaunchable(const AttemptKey& key, uint32_t rank,
                                       const LaunchProblem& problem) {
  v1::RankExit exit;
  exit.set_rank(rank);
  exit.set_node(setup_.node);
  exit.set_exit_code(problem.exit_code);
  exit.set_launch_errno(problem.launch_errno);
  exit.set_launch_error(problem.text);
  exit.set_ended_ms(common::SystemClock().Read().wall_ms);
  callbacks_.input(RankExitedInput{key, exit});
}

void AttemptProcesses::RecordLaunch(const RecordLaunchAction& action) {
  if (!setup_.run_as.IsOther()) return RecordLaunchNow(action, RankAccount());
  // The user database may be remote.
  threads_->Post(action.key, Work::kLaunch, [this, action] {
    auto account =
        AccountFor(setup_.run_as, setup_.node, action.launch.owner(), action.launch.account());
    callbacks_.in_loop(
        [this, action, account = std::move(account)] { RecordLaunchNow(action, account); });
  });
}

void AttemptProcesses::RecordLaunchNow(const RecordLaunchAction& action,
                                       const absl::StatusOr<RankAccount>& account) {
  const Paths& paths = setup_.paths;
  absl::Status status = account.status();
  if (status.ok())
    status = MakeAttemptDirs(paths, action.key, *account, setup_.isolation.sandbox.has_own_mounts);
  if (status.ok()) status = IssueRankToken(paths, action.key, account->ids);
  if (status.ok()) status = WriteRankTable(paths, action.key, action.launch, account->ids);
  if (status.ok()) status = WriteSecrets(paths, action.key, action.launch, account->ids);
  if (status.ok()) status = WriteLaunch(paths.Launch(action.key), WithoutSecrets(action.launch));
  if (absl::IsUnavailable(status)) {  // no descriptor is free right now
    return threads_->Post(action.key, Work::kLaunch, [this, action] {
      poll(nullptr, 0, kDescriptorWaitMs);
      callbacks_.in_loop([this, action] { RecordLaunch(action); });
    });
  }
  if (!status.ok()) {
    RemoveSecrets(paths, action.key);
    return callbacks_.input(LaunchRecordedInput{
        action.key,
        common::StrCat("node ", setup_.node,
                       " cannot prepare the attempt: ", common::MessageOf(status), FixFor(status)),
        !account.ok() || absl::IsFailedPrecondition(status), account.ok() && IsShort(status)});
  }
  EndOlderAttempts(action.key,
                   [this, key = action.key] { callbacks_.input(LaunchRecordedInput{key}); });
}

bool AttemptProcesses::HasOwnView(const v1::LaunchAttempt& launch) const {
  return setup_.isolation.sandbox.has_own_mounts || !launch.spec().container().image().empty();
}

std::string AttemptProcesses::TrainerSocketOf(const AttemptKey& key, bool has_own_view) const {
  return has_own_view ? setup_.paths.OwnTrainerSocket(key) : setup_.paths.TrainerSocket(key);
}

absl::StatusOr<common::UniqueFd> AttemptProcesses::ListenToRanks(
    const AttemptKey& key, bool has_own_view, const common::LaunchAccount& account) const {
  if (has_own_view) {
    RETURN_IF_ERROR(common::MakeDirectories(setup_.paths.OwnTrainerDir(key), 0711));
  }
  return ListenUnix(TrainerSocketOf(key, has_own_view), account);
}

void AttemptProcesses::RemoveSockets(const AttemptKey& key) const {
  unlink(setup_.paths.TrainerSocket(key).c_str());
  unlink(setup_.paths.OwnTrainerSocket(key).c_str());
  rmdir(setup_.paths.OwnTrainerDir(key).c_str());
  unlink(setup_.paths.ShimSocket(key).c_str());
}

ContainerPlace AttemptProcesses::PlaceOfContainers(const AttemptKey& key,
                                                   const v1::LaunchAttempt& launch) const {
  ContainerPlace place =
      PlaceOfAttempt(setup_.node, setup_.paths, key, launch.spec(), PlaceOf(setup_.paths, key));
  place.shim_binary = setup_.shim_binary;
  return place;
}

LaunchFacts AttemptProcesses::FactsFor(const AttemptKey& key, const v1::LaunchAttempt& launch,
                                       const RankAccount& account, const std::string& mark) const {
  LaunchFacts facts;
  facts.node = setup_.node;
  facts.advertise = setup_.advertise;
  facts.interfaces = ListInterfaceAddresses();
  facts.usable_cores = setup_.cores;
  facts.device_kinds = setup_.device_kinds;
  if (const auto block = port_blocks_.find(key); block != port_blocks_.end())
    facts.first_port = block->second.first;
  if (!RankTableText(launch).empty()) facts.rank_table = setup_.paths.RankTable(key);
  facts.mark = mark;
  facts.trainer_socket = TrainerSocketOf(key, HasOwnView(launch));
  facts.rank_token_file = setup_.paths.RankToken(key);
  facts.errors_dir = setup_.paths.ErrorsDir(key);
  facts.checkpoint_dir = setup_.paths.CheckpointsDir(key);
  facts.tensorboard_dir = setup_.paths.TensorboardDir(key);
  facts.diagnostics_dir = setup_.paths.DiagnosticsDir(key);
  if (!launch.spec().secrets().empty()) facts.secrets_dir = SecretsDir(setup_.paths, key);
  if (Resumes(launch)) {
    facts.resume_dir = setup_.paths.ResumeStep(key, launch.resume_step());
  }
  const Person person = PersonOf(account);
  facts.home = person.home;
  facts.user = person.name;
  return facts;
}

common::ShimLaunch AttemptProcesses::MakeShimLaunch(const AttemptKey& key,
                                                    const v1::LaunchAttempt& launch,
                                                    std::vector<common::RankLaunch> ranks,
                                                    const RankAccount& account,
                                                    const std::string& mark) const {
  const common::AttemptCgroups cgroups = common::MakeAttemptCgroups(setup_.cgroups, mark);
  common::ShimLaunch order;
  order.job = key.job;
  order.attempt = key.attempt;
  order.mark = mark;
  order.attempt_dir = setup_.paths.AttemptDir(key);
  order.spool_dir = setup_.paths.SpoolDir(key);
  order.socket_path = setup_.paths.ShimSocket(key);
  order.ranks = std::move(ranks);
  order.cgroup_dir = cgroups.v2_dir;
  order.freezer_dir = cgroups.freezer_dir;
  order.spool_quota_bytes =
      launch.spool_quota_bytes() > 0 ? launch.spool_quota_bytes() : common::kSpoolQuotaBytes;
  order.block_when_full = launch.spec().logs() == v1::LOG_POLICY_BLOCK;
  if (launch.spec().grace_ms() > 0) order.term_grace_ms = launch.spec().grace_ms();
  order.account = account.ids;
  order.no_new_privs = setup_.isolation.no_new_privs;
  order.sandbox = SandboxOf(setup_.isolation.sandbox, setup_.paths, key, launch.spec().workdir(),
                            launch.spec().has_code());
  if (!launch.spec().secrets().empty()) order.secrets_dir = SecretsDir(setup_.paths, key);
  if (order.sandbox.has_own_mounts && !order.secrets_dir.empty())
    order.sandbox.shown_dirs.push_back(order.secrets_dir);
  if (const PreparedPlace place = PlaceOf(setup_.paths, key);
      order.sandbox.has_own_mounts && !place.setup_dir.empty()) {
    order.sandbox.shown_dirs.push_back(place.setup_dir);
    order.sandbox.shown_dirs.push_back(place.setup_tree);
  }
  if (!launch.spec().container().image().empty()) {
    order.container = LaunchOfContainers(
        PlaceOfContainers(key, launch), setup_.containers,
        ImageOf(setup_.paths, key, launch.spec().container().image()).value_or(ReadyImage()),
        launch.spec().container());
    order.sandbox.has_own_processes = true;  // as its bundles say
  }
  return order;
}

void AttemptProcesses::Spawn(const AttemptKey& key, const v1::LaunchAttempt& launch,
                             int64_t fence_mono_ms) {
  // A worker that was restarted since it prepared the attempt has lost the lease.
  if (const absl::Status leased = LeasePorts(key, launch.part().device_kind()); !leased.ok()) {
    ReleaseRendezvous(key);
    return callbacks_.input(
        NeverLaunched(key, common::StrCat("node ", setup_.node, ": ", common::MessageOf(leased)),
                      IsShort(leased), v1::STOP_CAUSE_LAUNCH_INTERRUPTED));
  }
  const std::string mark = NewAttemptMark(key.job, key.attempt, tags_.front());
  absl::StatusOr<RankSockets> sockets = RendezvousOf(launch).listen(launch);
  if (!sockets.ok()) {
    ReleaseRendezvous(key);
    return callbacks_.input(NeverLaunched(
        key, common::StrCat("node ", setup_.node, ": ", common::MessageOf(sockets.status())),
        IsShort(sockets.status()), v1::STOP_CAUSE_LAUNCH_INTERRUPTED));
  }
  const std::vector<uint16_t> rank_ports = sockets->ports;
  launching_[key] = {launch, fence_mono_ms, mark, *std::move(sockets)};
  // Event files that are recorded before this check answers existed before the first rank.
  const auto note_event_files = [this, key, mark, path = setup_.paths.EventLedger(key),
                                 roots = EventRoots(setup_.paths, key, launch)] {
    const absl::Status noted = NoteEventFiles(path, mark, roots);
    if (noted.ok()) return;
    callbacks_.in_loop([this, key, noted] {
      callbacks_.note(
          common::StrCat("event files are read only in the attempt's own directory job=", key.job,
                         " attempt=", key.attempt, " reason=\"", common::MessageOf(noted), "\""));
    });
  };
  const RankAccount account = ReadAccount(setup_.paths.Account(key));
  LaunchFacts facts = FactsFor(key, launch, account, mark);
  facts.rank_ports = rank_ports;
  std::vector<common::RankLaunch> ranks = BuildRanks(launch, facts);
  const PreparedPlace place = PlaceOf(setup_.paths, key);
  LaunchChecks::Check wrap;
  if (launch.spec().container().image().empty()) {
    for (common::RankLaunch& rank : ranks) EnterPlace(place, &rank);
  } else {
    wrap = [containers = PlaceOfContainers(key, launch), paths = setup_.paths, key, launch, account,
            place](std::vector<common::RankLaunch>* wrapped) -> std::optional<LaunchProblem> {
      const ActAsWorker own_rights;
      const auto image = ImageOf(paths, key, launch.spec().container().image());
      if (!image.ok()) {
        return LaunchProblem{
            EIO, kExitNoImage,
            common::StrCat("node ", containers.node, ": the job's image: ",
                           common::MessageOf(image.status()), "; fix: submit the job again")};
      }
      return WrapRanks(containers, *image, launch.spec(), launch.part(), account, place, wrapped);
    };
  }
  checks_.Start(
      key, std::move(ranks), [account] { return account; }, note_event_files,
      [this, key](const std::optional<LaunchProblem>& problem, auto ranks) {
        const Launching order = std::move(launching_.extract(key).mapped());
        if (!problem) return SpawnNow(key, order, std::move(ranks));
        const bool hangs = problem->launch_errno == ETIMEDOUT;
        if (!hangs) SayUnlaunchable(key, order.launch.part().first_rank(), *problem);
        ReleaseRendezvous(key);
        callbacks_.input(AttemptEndedInput{
            key, "never launched", problem->text,
            hangs ? v1::STOP_CAUSE_LAUNCH_INTERRUPTED : v1::STOP_CAUSE_LAUNCH_FAILED});
      },
      std::move(wrap));
}

void AttemptProcesses::SpawnNow(const AttemptKey& key, const Launching& launching,
                                std::vector<common::RankLaunch> ranks) {
  const v1::LaunchAttempt& launch = launching.launch;
  const RankAccount account = ReadAccount(setup_.paths.Account(key));
  absl::StatusOr<common::UniqueFd> listener = ListenToRanks(key, HasOwnView(launch), account.ids);
  if (!listener.ok()) {
    callbacks_.note(common::StrCat("no trainer socket job=", key.job, " attempt=", key.attempt,
                                   " reason=\"", common::MessageOf(listener.status()), "\""));
  }
  io_->Open(key, launch, listener.ok() ? *std::move(listener) : common::UniqueFd(),
            ReadRankPass(setup_.paths, key, account.ids));
  std::vector<int> fds;
  if (const auto offered = rendezvous_.find(key); offered != rendezvous_.end())
    fds = offered->second->Descriptors();
  if (const auto block = port_blocks_.find(key); block != port_blocks_.end())
    fds.push_back(block->second.claim.get());
  common::ShimLaunch order = MakeShimLaunch(key, launch, std::move(ranks), account, launching.mark);
  order.rendezvous_settings =
      RendezvousOf(launch).settings(launch, fds.size(), launching.sockets.sockets.size());
  if (!order.rendezvous_settings.empty()) order.rendezvous_program = setup_.rendezvous_binary;
  for (const common::UniqueFd& socket : launching.sockets.sockets) fds.push_back(socket.get());
  order.fence_mono_ms = launching.fence_mono_ms;
  // Placement has checked this, so it fails only for limits that the kernel refuses, and with coordinators that
  // do not check.
  if (absl::Status limited =
          LimitRanks(KernelCgroups(), setup_.limits, launch.spec().shape().limits(), &order);
      !limited.ok()) {
    ReleaseRendezvous(key);
    RemoveCgroups(order);
    return callbacks_.input(
        NeverLaunched(key,
                      common::StrCat("node ", setup_.node,
                                     " cannot limit the ranks: ", common::MessageOf(limited)),
                      IsShort(limited), v1::STOP_CAUSE_LAUNCH_FAILED));
  }
  absl::StatusOr<std::unique_ptr<ShimClient>> client =
      ShimClient::Spawn(setup_.shim_binary, order, fds);
  ReleaseRendezvous(key);  // the shim has its own copies
  if (!client.ok()) {
    RemoveCgroups(order);
    return callbacks_.input(
        NeverLaunched(key,
                      common::StrCat("node ", setup_.node, " cannot start the supervisor: ",
                                     common::MessageOf(client.status()), FixFor(client.status())),
                      // Regardless of the errno, another node, or this one later, may succeed.
                      IsShort(client.status()), v1::STOP_CAUSE_LAUNCH_INTERRUPTED));
  }
  Shim& shim = shims_[key];
  shim.client = *std::move(client);
  shim.launch = launch;
  shim.watch = std::make_unique<ShimWatch>(common::MonotonicMs());
}

}  // namespace muster::worker
