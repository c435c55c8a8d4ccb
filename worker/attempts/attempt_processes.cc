// attempt_processes: handles the events of running shims, and proves the end of those that are
// gone. attempt_launch.cc launches them.
#include "worker/attempts/attempt_processes.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "common/base/overloaded.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "worker/confinement/secret_files.h"

namespace muster::worker {
namespace {

constexpr int kProveTurnMs = 1'000;  // this worker's shutdown waits no longer than this for a proof
// A longer turn does not count as this worker's running time: it may have been stopped itself.
constexpr int64_t kRanAtMostMs = 1'000;
constexpr int64_t kSeenPauseMs =
    4;  // a flood wakes the forwarder this often, the first byte immediately

// The time of a process's start, given in clock ticks since boot.
int64_t MonoMsOf(uint64_t start_time) {
  return static_cast<int64_t>(start_time) * 1000 / std::max(1L, sysconf(_SC_CLK_TCK));
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
                  // Runs after the attempt's reports, which need the values in order to hide them.
                  if (const auto* ended = std::get_if<AttemptEndedInput>(&said)) {
                    RemoveSecrets(paths, ended->key);
                  }
                  input(std::move(said));
                },
                callbacks.in_loop}),
      checks_(setup_.node, setup_.isolation.sandbox.has_own_mounts, threads, callbacks.in_loop,
              setup_.paths.StateDir()),
      callbacks_{[this](Input input) { reports_.Pass(std::move(input)); }, callbacks.in_background,
                 callbacks.in_loop, callbacks.note},
      preparations_({.node = setup_.node,
                     .paths = setup_.paths,
                     .run_as = setup_.run_as,
                     .isolation = setup_.isolation,
                     .device_kinds = setup_.device_kinds,
                     .shim_binary = setup_.shim_binary,
                     .containers = setup_.containers,
                     .cache_bytes = setup_.code_cache_bytes},
                    setup_.fetch_object, threads,
                    {.in_loop = callbacks_.in_loop,
                     .preparing =
                         [this](const AttemptKey& key, const std::string& doing) {
                           callbacks_.input(PreparingInput{key, doing});
                         }}),
      ports_(setup_.ports, setup_.port_seed),
      tags_(TagsOf("")) {}

void AttemptProcesses::Stop(const AttemptKey& key, uint32_t grace_ms) {
  if (auto left = unsettled_.extract(key)) return Settle(key, left.mapped());
  if (launching_.erase(key) > 0) {  // nothing has been started yet
    checks_.Cancel(key);
    rendezvous_.erase(key);
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

void AttemptProcesses::KillRanks(const AttemptKey& key) {
  const auto found = shims_.find(key);
  if (found == shims_.end()) return;  // never started, or already being killed
  callbacks_.in_background(
      [directory = setup_.paths.AttemptDir(key), order = found->second.client->launch()] {
        muster::worker::KillRanks(directory, order);
      });
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
  for (const auto& due : {checks_.NextDeadlineMs(), preparations_.NextDeadlineMs()}) {
    if (due && (!next || *due < *next)) next = due;
  }
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
  preparations_.OnTime(now_ms);
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

// The shim is stopped or hung, and would keep its ranks alive past every fence.
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
  // Every rank's exit was reported, so the job has lost nothing.
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

void AttemptProcesses::RemoveCgroups(const common::ShimLaunch& order) {
  common::RemoveAttemptCgroups({order.cgroup_dir, order.freezer_dir, order.limit_dirs});
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
  const bool has_run = std::any_of(record.exits.begin(), record.exits.end(),
                                   [](const RankExited& exit) { return exit.pid > 0; });
  if (has_run && !record.failure.empty()) {
    end.failure = common::StrCat("on node ", setup_.node, " ", record.failure);
    end.failure_cause = v1::STOP_CAUSE_SUPERVISOR_LOST;
  }
  if (record.how != "empty") return ProveEnd(key, end);
  RemoveCgroups(shim_launch);
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
        if (read.ok()) RemoveCgroups(*read);
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
