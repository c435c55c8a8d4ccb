// attempt_processes: turns decisions into processes, and processes into facts.
#include "worker/attempt_processes.h"

#include <fcntl.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/clock.h"
#include "common/files.h"
#include "common/limits.h"
#include "common/overloaded.h"
#include "common/status.h"
#include "common/strings.h"
#include "worker/event_ledger.h"
#include "worker/launch_record.h"
#include "worker/limits/rank_groups.h"
#include "worker/rank_token.h"
#include "worker/secret_files.h"

namespace muster::worker {
namespace {

constexpr int kProveTurnMs = 1'000;  // this worker's shutdown waits no longer than this for a proof
// A longer turn does not count as this worker's running time: it may have been stopped itself.
constexpr int64_t kRanAtMostMs = 1'000;
constexpr int kDescriptorWaitMs = 100;
constexpr int64_t kSeenPauseMs =
    4;  // a flood wakes the forwarder this often, the first byte immediately

std::string FixFor(const absl::Status& status) {
  if (absl::IsUnavailable(status))
    return "; fix: raise the worker's limit of open files (ulimit -n)";
  return absl::IsResourceExhausted(status)
             ? "; fix: free space on the disk of that node's --state-dir"
             : "";
}
// The time of a process's start, given in clock ticks since boot.
int64_t MonoMsOf(uint64_t start_time) {
  return static_cast<int64_t>(start_time) * 1000 / std::max(1L, sysconf(_SC_CLK_TCK));
}
// Not synced: after a power failure the boot id already shows that the attempt is dead. Read back
// by ReadLaunchRecord.
absl::Status WriteLaunch(const std::string& path, const v1::LaunchAttempt& launch) {
  const std::string temporary = path + ".tmp";
  {
    ASSIGN_OR_RETURN(const common::UniqueFd fd,
                     common::OpenRegular(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW));
    if (absl::Status written = common::WriteAll(fd.get(), EncodeLaunchRecord(launch));
        !written.ok()) {
      return absl::Status(written.code(),
                          common::StrCat(temporary, ": ", common::MessageOf(written)));
    }
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    return common::ErrnoStatus(common::StrCat("cannot rename ", temporary));
  }
  return absl::OkStatus();
}

// As it is written: values of secrets are on no disk.
v1::LaunchAttempt WithoutSecrets(v1::LaunchAttempt launch) {
  launch.clear_secrets();
  return launch;
}

common::AttemptCgroups CgroupsOf(const common::ShimLaunch& order) {
  return {order.cgroup_dir, order.freezer_dir, order.limit_dirs};
}

// Without a readable launch file: kills everything with a mark of this attempt on this node.
common::KillResult KillByKey(const std::string& directory, const AttemptKey& key,
                             const common::CgroupHost& cgroups,
                             const std::vector<std::string>& tags) {
  if (ReadShimLaunch(directory).ok()) return KillAttempt(directory, kProveTurnMs);
  const auto ended = EndMarked(
      cgroups,
      [&](const AttemptMark& mark) {
        return mark.job == key.job && mark.attempt == key.attempt &&
               std::find(tags.begin(), tags.end(), mark.tag) != tags.end();
      },
      kProveTurnMs);
  return {.empty = ended.ok(),
          .survivors = {},
          .how = ended.ok() ? "empty" : common::MessageOf(ended.status())};
}

}  // namespace

AttemptProcesses::AttemptProcesses(Setup setup, IoThread* io, JobThreads* threads,
                                   Callbacks callbacks)
    : setup_(std::move(setup)),
      io_(io),
      threads_(threads),
      reports_(setup_.paths, threads,
               {[paths = setup_.paths, input = callbacks.input](Input said) {
                  // After the attempt's reports, which hide the values.
                  if (const auto* ended = std::get_if<AttemptEndedInput>(&said)) {
                    RemoveSecrets(paths, ended->key);
                  }
                  input(std::move(said));
                },
                callbacks.in_loop}),
      checks_(setup_.node, setup_.isolation.sandbox.has_own_mounts, threads, callbacks.in_loop),
      callbacks_{[this](Input input) { reports_.Pass(std::move(input)); }, callbacks.in_background,
                 callbacks.in_loop, callbacks.note},
      ports_(setup_.ports, setup_.port_seed),
      tags_({NodeTag(setup_.coordinator, setup_.node)}) {}

void AttemptProcesses::HoldPorts(const HoldPortsAction& action) {
  const v1::HoldPorts& order = action.order;
  std::vector<common::RankLaunch> probe(1);
  probe[0].argv = {order.program()};
  probe[0].env = {common::StrCat("PATH=", order.search_path())};
  probe[0].workdir = order.workdir();
  const auto account = [run_as = setup_.run_as, node = setup_.node, owner = order.owner(),
                        name = order.account()] { return AccountFor(run_as, node, owner, name); };
  checks_.Start(action.key, std::move(probe), account, {},
                [this, action](const std::optional<LaunchProblem>& problem, const auto&) {
                  HoldNow(action, problem);
                });
}

void AttemptProcesses::HoldNow(const HoldPortsAction& action,
                               const std::optional<LaunchProblem>& problem) {
  const v1::HoldPorts& order = action.order;
  if (problem && problem->launch_errno == ETIMEDOUT) {
    return callbacks_.input(PortsHeldInput{action.key, 0, problem->text});
  }
  if (problem) {
    SayUnlaunchable(action.key, order.first_rank(), *problem);
    return callbacks_.input(PortsHeldInput{action.key, 0, problem->text, true});
  }
  if (order.count() == 0) return callbacks_.input(PortsHeldInput{action.key});
  absl::StatusOr<std::vector<HeldPort>> held = ports_.Hold(order.count(), order.contiguous());
  if (!held.ok())
    return callbacks_.input(PortsHeldInput{action.key, 0, common::MessageOf(held.status())});
  const uint32_t first = held->front().port;
  held_[action.key] = *std::move(held);
  callbacks_.input(PortsHeldInput{action.key, first, ""});
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

void AttemptProcesses::Prepare(const PrepareAction& action) {
  if (!setup_.run_as.IsOther()) return PrepareNow(action, RankAccount());
  // The user database may be remote.
  threads_->Post(action.key, Work::kLaunch, [this, action] {
    auto account =
        AccountFor(setup_.run_as, setup_.node, action.launch.owner(), action.launch.account());
    callbacks_.in_loop(
        [this, action, account = std::move(account)] { PrepareNow(action, account); });
  });
}

void AttemptProcesses::PrepareNow(const PrepareAction& action,
                                  const absl::StatusOr<RankAccount>& account) {
  const Paths& paths = setup_.paths;
  absl::Status status = account.status();
  if (status.ok())
    status = MakeAttemptDirs(paths, action.key, *account, setup_.isolation.sandbox.has_own_mounts);
  if (status.ok()) status = IssueRankToken(paths, action.key, account->ids);
  if (status.ok()) status = WriteSecrets(paths, action.key, action.launch, account->ids);
  if (status.ok()) status = WriteLaunch(paths.Launch(action.key), WithoutSecrets(action.launch));
  if (absl::IsUnavailable(status)) {  // no descriptor is free right now
    return threads_->Post(action.key, Work::kLaunch, [this, action] {
      poll(nullptr, 0, kDescriptorWaitMs);
      callbacks_.in_loop([this, action] { Prepare(action); });
    });
  }
  if (!status.ok()) {
    RemoveSecrets(paths, action.key);
    return callbacks_.input(PreparedInput{
        action.key, common::StrCat("node ", setup_.node, " cannot prepare the attempt: ",
                                   common::MessageOf(status), FixFor(status))});
  }
  EndOlderAttempts(action.key, [this, key = action.key] {
    callbacks_.input(PreparedInput{key, ""});
  });
}

std::string AttemptProcesses::TrainerSocketOf(const AttemptKey& key,
                                              const common::LaunchSandbox& sandbox) const {
  return sandbox.has_own_mounts ? setup_.paths.OwnTrainerSocket(key)
                                : setup_.paths.TrainerSocket(key);
}

absl::StatusOr<common::UniqueFd> AttemptProcesses::ListenToRanks(
    const AttemptKey& key, const common::LaunchSandbox& sandbox,
    const common::LaunchAccount& account) const {
  if (sandbox.has_own_mounts) {
    RETURN_IF_ERROR(common::MakeDirectories(setup_.paths.OwnTrainerDir(key), 0711));
  }
  return ListenUnix(TrainerSocketOf(key, sandbox), account);
}

LaunchFacts AttemptProcesses::FactsFor(const AttemptKey& key, const v1::LaunchAttempt& launch,
                                       const RankAccount& account, const std::string& mark) const {
  LaunchFacts facts;
  facts.node = setup_.node;
  facts.advertise = setup_.advertise;
  facts.interfaces = ListInterfaceAddresses();
  facts.usable_cores = setup_.cores;
  facts.device_kinds = setup_.device_kinds;
  facts.mark = mark;
  facts.trainer_socket = TrainerSocketOf(key, setup_.isolation.sandbox);
  facts.rank_token_file = setup_.paths.RankToken(key);
  facts.errors_dir = setup_.paths.ErrorsDir(key);
  facts.checkpoint_dir = setup_.paths.CheckpointsDir(key);
  facts.tensorboard_dir = setup_.paths.TensorboardDir(key);
  facts.diagnostics_dir = setup_.paths.DiagnosticsDir(key);
  if (!launch.spec().secrets().empty()) facts.secrets_dir = SecretsDir(setup_.paths, key);
  if (Resumes(launch)) {
    facts.resume_dir = setup_.paths.ResumeStep(key, launch.resume_step());
  }
  if (account.ids.is_other) {
    facts.home = account.home;
    facts.user = account.name;
  } else if (const passwd* user = getpwuid(getuid()); user != nullptr) {
    facts.home = user->pw_dir;
    facts.user = user->pw_name;
  }
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
  order.sandbox = SandboxOf(setup_.isolation.sandbox, setup_.paths, key, launch.spec().workdir());
  if (order.sandbox.has_own_mounts && !launch.spec().secrets().empty()) {
    order.sandbox.shown_dirs.push_back(SecretsDir(setup_.paths, key));
  }
  return order;
}

void AttemptProcesses::Spawn(const AttemptKey& key, const v1::LaunchAttempt& launch,
                             int64_t fence_mono_ms) {
  const std::string mark = NewAttemptMark(key.job, key.attempt, tags_.front());
  launching_[key] = {launch, fence_mono_ms, mark};
  // What is recorded before this is answered existed before the first rank.
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
  checks_.Start(
      key, BuildRanks(launch, FactsFor(key, launch, account, mark)), [account] { return account; },
      note_event_files,
      [this, key](const std::optional<LaunchProblem>& problem, auto ranks) {
        const Launching order = std::move(launching_.extract(key).mapped());
        if (!problem) return SpawnNow(key, order, std::move(ranks));
        const bool hangs = problem->launch_errno == ETIMEDOUT;
        if (!hangs) SayUnlaunchable(key, order.launch.part().first_rank(), *problem);
        held_.erase(key);
        callbacks_.input(AttemptEndedInput{
            key, "never launched", problem->text,
            hangs ? v1::STOP_CAUSE_LAUNCH_INTERRUPTED : v1::STOP_CAUSE_LAUNCH_FAILED});
      });
}

void AttemptProcesses::SpawnNow(const AttemptKey& key, const Launching& launching,
                                std::vector<common::RankLaunch> ranks) {
  const v1::LaunchAttempt& launch = launching.launch;
  const RankAccount account = ReadAccount(setup_.paths.Account(key));
  absl::StatusOr<common::UniqueFd> listener =
      ListenToRanks(key, setup_.isolation.sandbox, account.ids);
  if (!listener.ok()) {
    callbacks_.note(common::StrCat("no trainer socket job=", key.job, " attempt=", key.attempt,
                                   " reason=\"", common::MessageOf(listener.status()), "\""));
  }
  io_->Open(key, launch, listener.ok() ? *std::move(listener) : common::UniqueFd(),
            ReadRankPass(setup_.paths, key, account.ids));
  std::vector<int> fds;
  for (const HeldPort& port : held_[key]) fds.push_back(port.socket.get());
  common::ShimLaunch order = MakeShimLaunch(key, launch, std::move(ranks), account, launching.mark);
  order.fence_mono_ms = launching.fence_mono_ms;
  // Placement has asked before: this is for limits that the kernel refuses, and for a coordinator
  // that does not ask.
  if (absl::Status limited =
          LimitRanks(KernelCgroups(), setup_.limits, launch.spec().shape().limits(), &order);
      !limited.ok()) {
    held_.erase(key);
    common::RemoveAttemptCgroups(CgroupsOf(order));
    return callbacks_.input(
        AttemptEndedInput{key, "never launched",
                          common::StrCat("node ", setup_.node,
                                         " cannot limit the ranks: ", common::MessageOf(limited)),
                          v1::STOP_CAUSE_LAUNCH_FAILED});
  }
  absl::StatusOr<std::unique_ptr<ShimClient>> client =
      ShimClient::Spawn(setup_.shim_binary, order, fds);
  held_.erase(key);  // the shim has its own copies
  if (!client.ok()) {
    common::RemoveAttemptCgroups(CgroupsOf(order));
    return callbacks_.input(AttemptEndedInput{
        key, "never launched",
        common::StrCat("node ", setup_.node, " cannot start the supervisor: ",
                       common::MessageOf(client.status()), FixFor(client.status())),
        absl::IsUnavailable(client.status()) ? v1::STOP_CAUSE_LAUNCH_INTERRUPTED
                                             : v1::STOP_CAUSE_LAUNCH_FAILED});
  }
  Shim& shim = shims_[key];
  shim.client = *std::move(client);
  shim.launch = launch;
  shim.watch = std::make_unique<ShimWatch>(common::MonotonicMs());
}

void AttemptProcesses::Stop(const AttemptKey& key, uint32_t grace_ms) {
  if (auto left = unsettled_.extract(key)) return Settle(key, left.mapped());
  if (launching_.erase(key) > 0) {  // nothing has been started yet
    checks_.Cancel(key);
    held_.erase(key);
    return callbacks_.input(
        AttemptEndedInput{key, "never launched", "", v1::STOP_CAUSE_UNSPECIFIED});
  }
  const auto found = shims_.find(key);
  if (found == shims_.end()) return;
  Shim& shim = found->second;
  shim.client->Stop(grace_ms);
  if (shim.watch->Stopping(common::MonotonicMs(), grace_ms))
    shim.watch->Asked(shim.client->Ping(), common::MonotonicMs());
}

void AttemptProcesses::MoveFence(const AttemptKey& key, int64_t fence_mono_ms) {
  if (auto order = launching_.find(key); order != launching_.end()) {
    order->second.fence_mono_ms = fence_mono_ms;
  }
  if (auto shim = shims_.find(key); shim != shims_.end()) {
    shim->second.client->MoveFence(fence_mono_ms);
  }
}

void AttemptProcesses::Signal(const AttemptKey& key, int signal) {
  if (auto shim = shims_.find(key); shim != shims_.end()) shim->second.client->Signal(signal);
}

void AttemptProcesses::Trim(const AttemptKey& key, uint32_t rank, common::Stream stream,
                            uint64_t offset, uint64_t index_records) {
  if (auto shim = shims_.find(key); shim != shims_.end()) {
    shim->second.client->Trim(rank, stream, offset, index_records);
  }
}

void AttemptProcesses::AppendPollFds(std::vector<pollfd>* fds) const {
  for (const auto& [key, shim] : shims_) fds->push_back({shim.client->fd(), POLLIN, 0});
}

void AttemptProcesses::OnReady(int fd) {
  auto found = std::find_if(shims_.begin(), shims_.end(),
                            [fd](const auto& item) { return item.second.client->fd() == fd; });
  if (found == shims_.end()) return;
  const AttemptKey key = found->first;
  Shim& shim = found->second;
  const absl::StatusOr<std::vector<ShimEvent>> events = shim.client->Read();
  if (shim.client->TakeHeard()) shim.watch->Heard(common::MonotonicMs());
  if (events.ok()) {
    for (const ShimEvent& event : *events) OnEvent(key, shim, event);
  } else {
    callbacks_.note(common::StrCat("unexpected packet from shim job=", key.job,
                                   " attempt=", key.attempt, " reason=\"",
                                   common::MessageOf(events.status()), "\""));
  }
  if (!shim.client->gone() && events.ok()) return;
  Shim gone = std::move(shim);
  shims_.erase(key);
  OnGone(key, std::move(gone));
}

void AttemptProcesses::OnEvent(const AttemptKey& key, Shim& shim, const ShimEvent& event) {
  std::visit(
      common::Overloaded{
          [&](const RankStarted& started) {
            io_->RankStarted(key, started.rank, started.pid, started.start_time);
            shim.last_start = std::max(shim.last_start, started.start_time);
            if (++shim.started != shim.launch.part().local_world_size()) return;
            callbacks_.input(RanksStartedInput{key, shim.started, MonoMsOf(shim.last_start)});
          },
          [&](const RankExited& exit) {
            ++shim.exited;
            reports_.Add(shim.launch, shim.client->launch(), exit);
          },
          [&](const StreamClosed& closed) {
            io_->StreamClosed(key, closed.rank, closed.stream, closed.end);
          },
          [&](const SpoolGrew&) {
            const int64_t now = common::MonotonicMs();
            shim.grew = true;
            if (now - shim.seen_at_ms >= kSeenPauseMs) Seen(key, shim, now);
          },
          [&](const ShimEnded& ended) { shim.how = ended.how; }},
      event);
}

void AttemptProcesses::Seen(const AttemptKey& key, Shim& shim, int64_t now_ms) {
  shim.grew = false;
  shim.seen_at_ms = now_ms;
  shim.client->SpoolSeen();  // before the spool is read, so that later growth is reported again
  io_->SpoolGrew(key);
}

std::optional<int64_t> AttemptProcesses::NextDeadlineMs() const {
  const int64_t now = common::MonotonicMs();
  std::optional<int64_t> next = reports_.NextDeadlineMs();
  if (const auto due = checks_.NextDeadlineMs(); due && (!next || *due < *next)) next = due;
  for (const auto& [key, shim] : shims_) {
    const int64_t ask = shim.watch->NextMs(now);
    next = next ? std::min(*next, ask) : ask;
    if (!shim.grew) continue;
    const int64_t due = shim.seen_at_ms + kSeenPauseMs;
    next = std::min(*next, due);
  }
  return next;
}

void AttemptProcesses::OnTime(int64_t now_ms) {
  reports_.OnTime(now_ms);
  checks_.OnTime(now_ms);
  const int64_t ran_ms = std::min(now_ms - turn_ms_, kRanAtMostMs);
  turn_ms_ = now_ms;
  std::vector<AttemptKey> lost;
  for (auto& [key, shim] : shims_) {
    if (shim.grew && now_ms >= shim.seen_at_ms + kSeenPauseMs) Seen(key, shim, now_ms);
    if (shim.watch->OnTime(now_ms, ran_ms)) shim.watch->Asked(shim.client->Ping(), now_ms);
    if (shim.watch->IsLost(now_ms)) lost.push_back(key);
  }
  for (const AttemptKey& key : lost) GiveUp(key);
}

// Stopped or hung: it would keep its ranks alive past every fence.
void AttemptProcesses::GiveUp(const AttemptKey& key) {
  const auto node = shims_.extract(key);
  const Shim& shim = node.mapped();
  const std::string reason =
      common::StrCat("the supervisor (muster-shim) on node ", setup_.node, " did not answer for ",
                     shim.watch->silent_ms() / 1000, " s and was killed with its ranks");
  callbacks_.note(common::StrCat("shim abandoned job=", key.job, " attempt=", key.attempt,
                                 " reason=\"", reason, "\""));
  AttemptEndedInput end{key, "killed after its shim did not answer", reason,
                        v1::STOP_CAUSE_SUPERVISOR_LOST};
  // Every rank's exit was reported: the job has lost nothing.
  if (shim.exited >= shim.launch.part().local_world_size()) {
    end.failure.clear();
    end.failure_cause = v1::STOP_CAUSE_UNSPECIFIED;
  }
  ProveEnd(key, end, std::make_shared<common::ShimLaunch>(shim.client->launch()));
}

void AttemptProcesses::OnGone(const AttemptKey& key, Shim shim) {
  const absl::StatusOr<common::ExitRecord> record = ReadExitRecord(setup_.paths.AttemptDir(key));
  if (record.ok()) return FromExitRecord(key, shim.launch, *record);
  ProveEnd(key, ShimWasKilled(key), std::make_shared<common::ShimLaunch>(shim.client->launch()));
}

AttemptEndedInput AttemptProcesses::ShimWasKilled(const AttemptKey& key) const {
  return {key, "killed after its shim was lost",
          common::StrCat("the supervisor (muster-shim) on node ", setup_.node,
                         " was killed; its ranks were killed with it"),
          v1::STOP_CAUSE_SUPERVISOR_LOST};
}

void AttemptProcesses::FromExitRecord(const AttemptKey& key, const v1::LaunchAttempt& launch,
                                      const common::ExitRecord& record) {
  const auto order = ReadShimLaunch(setup_.paths.AttemptDir(key));
  const common::ShimLaunch shim_launch = order.ok() ? *order : common::ShimLaunch();
  for (const RankExited& exit : record.exits) {
    if (exit.pid > 0) io_->RankStarted(key, exit.rank, static_cast<pid_t>(exit.pid), 0);
    reports_.Add(launch, shim_launch, exit);
  }
  for (const StreamClosed& closed : record.streams) {
    io_->StreamClosed(key, closed.rank, closed.stream, closed.end);
  }
  AttemptEndedInput end{
      key, record.how, record.failure,
      record.failure.empty() ? v1::STOP_CAUSE_UNSPECIFIED : v1::STOP_CAUSE_LAUNCH_FAILED};
  if (record.how != "empty") return ProveEnd(key, end);
  common::RemoveAttemptCgroups(CgroupsOf(shim_launch));
  callbacks_.input(std::move(end));
}

void AttemptProcesses::ProveEnd(const AttemptKey& key, const AttemptEndedInput& end,
                                std::shared_ptr<const common::ShimLaunch> order,
                                const std::string& said) {
  const std::string directory = setup_.paths.AttemptDir(key);
  callbacks_.in_background([this, directory, end, order, said,
                            same_boot = !new_boot_ && !new_container_, cgroups = setup_.cgroups,
                            tags = tags_] {
    const common::KillResult result = order != nullptr
                                          ? KillAttempt(directory, *order, same_boot, kProveTurnMs)
                                          : KillByKey(directory, end.key, cgroups, tags);
    callbacks_.in_loop([this, directory, end, order, result, said] {
      if (result.empty) {
        const auto read = ReadShimLaunch(directory);
        if (read.ok()) common::RemoveAttemptCgroups(CgroupsOf(*read));
        return callbacks_.input(end);
      }
      // Processes in uninterruptible sleep: the attempt has not ended and its devices stay in use.
      // Retried until it has.
      if (result.how != said) {
        callbacks_.note(common::StrCat("still alive job=", end.key.job, " attempt=",
                                       end.key.attempt, " reason=\"", result.how, "\""));
      }
      ProveEnd(end.key, end, order, result.how);
    });
  });
}

}  // namespace muster::worker
