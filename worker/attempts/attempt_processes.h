// The shims of this node: starts them, reads from them, adopts them after a restart, and proves the
// end of those that were killed or do not answer. Control loop's thread; what blocks (killing what
// a dead shim left, scanning the host, reading a job's files) goes to threads that may. How
// shims are launched is in attempt_launch.cc, worker startup and clearing of its host in
// attempt_restore.cc.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/kernel/kill_ladder.h"
#include "worker/attempts/rank_report_queue.h"
#include "worker/base/paths.h"
#include "worker/confinement/isolation.h"
#include "worker/confinement/rank_account.h"
#include "worker/containers/rank_containers.h"
#include "worker/core/decide.h"
#include "worker/launch/launch_checks.h"
#include "worker/launch/launch_environment.h"
#include "worker/launch/leftovers.h"
#include "worker/launch/shim_client.h"
#include "worker/launch/shim_watch.h"
#include "worker/limits/limit_host.h"
#include "worker/membership/identity.h"
#include "worker/output/io_thread.h"
#include "worker/preparation/preparations.h"
#include "worker/rendezvous/port_block.h"
#include "worker/rendezvous/rendezvous.h"

namespace muster::worker {

class AttemptProcesses {
 public:
  struct Setup {
    Paths paths;
    std::string node;
    std::string advertise;
    std::string shim_binary;
    std::string rendezvous_binary;
    uint32_t cores = 1;
    std::set<std::string> device_kinds;  // of this node's devices
    common::CgroupHost cgroups;
    LimitHost limits;
    PortRange ports;
    uint64_t port_seed = 0;
    std::vector<std::string>
        coordinators;  // addresses, for attempts' tags until the cluster's id is known
    RunAs run_as;
    Isolation isolation;
    ContainerTools containers;
    uint64_t code_cache_bytes = kCodeCacheBytes;
    FetchObject fetch_object;  // of jobs' code
  };
  struct Callbacks {
    std::function<void(Input)> input;  // on the control loop's thread
    std::function<void(std::function<void()>)>
        in_background;  // runs a function on a thread that may block
    std::function<void(std::function<void()>)> in_loop;  // runs a function on the control loop
    std::function<void(const std::string&)> note;
  };
  AttemptProcesses(Setup setup, IoThread* io, JobThreads* threads, Callbacks callbacks);

  void PrepareAttempt(const PrepareAttemptAction& action);
  void CancelPreparation(const AttemptKey& key) { preparations_.Cancel(key); }
  // The lane in which the attempt's directory may be removed.
  Work RemovalLane(const AttemptKey& key) const {
    return preparations_.IsBusy(key) ? Work::kPrepare : Work::kDelete;
  }
  // Makes preparations end soon.
  void StopPreparations() { preparations_.Stop(); }
  void ReleaseRendezvous(const AttemptKey& key) {
    rendezvous_.erase(key);
    port_blocks_.erase(key);
  }
  void RecordLaunch(const RecordLaunchAction& action);
  void Spawn(const AttemptKey& key, const v1::LaunchAttempt& launch, int64_t fence_mono_ms);
  void Stop(const AttemptKey& key, uint32_t grace_ms);
  void MoveFence(const AttemptKey& key, int64_t fence_mono_ms);
  void KillRanks(const AttemptKey& key);
  // Of an attempt that is over.
  void RemoveSockets(const AttemptKey& key) const;
  void Signal(const AttemptKey& key, int signal);
  void Trim(const AttemptKey& key, uint32_t rank, common::Stream stream, uint64_t offset,
            uint64_t index_records);
  // Reads everything in the state directory, once at startup. Attempts with a living shim are
  // adopted, others are settled when the host is cleared.
  void Restore(const LoadedIdentity& identity);
  // The same id however the coordinator's address is spelled. Empty: an older coordinator, which
  // has none.
  void SetCluster(const std::string& cluster_id);
  void ClearHost(const ClearHostAction& action);
  void AbandonClearing() { ++clearing_; }

  void AppendPollFds(std::vector<pollfd>* fds) const;
  void OnReady(int fd);
  // When pending SpoolSeen orders are due.
  std::optional<int64_t> NextDeadlineMs() const;
  void OnTime(int64_t now_ms);

 private:
  std::vector<std::string> TagsOf(const std::string& cluster_id) const;
  // A launch whose working directory and program are being checked.
  struct Launching {
    v1::LaunchAttempt launch;
    int64_t fence_mono_ms = 0;
    std::string mark;
    RankSockets sockets;
  };
  void RecordLaunchNow(const RecordLaunchAction& action,
                       const absl::StatusOr<RankAccount>& account);
  void CheckThenOpen(const PrepareAttemptAction& action, common::RankLaunch command,
                     LaunchChecks::Account account, v1::Preparation preparation);
  void OpenRendezvous(const PrepareAttemptAction& action,
                      const std::optional<LaunchProblem>& problem,
                      const v1::Preparation& preparation);
  // Leases the ports of the kind, unless the attempt has them already.
  absl::Status LeasePorts(const AttemptKey& key, const std::string& device_kind);
  void SpawnNow(const AttemptKey& key, const Launching& order,
                std::vector<common::RankLaunch> ranks);
  void SayUnlaunchable(const AttemptKey& key, uint32_t rank, const LaunchProblem& problem);
  struct Shim {
    std::unique_ptr<ShimClient> client;
    v1::LaunchAttempt launch;
    std::unique_ptr<ShimWatch> watch;
    uint32_t started = 0;
    uint64_t last_start = 0;  // latest start of its ranks, in clock ticks since boot
    uint32_t exited = 0;
    bool grew = false;  // a SpoolSeen is due
    int64_t seen_at_ms = 0;
    std::string how;  // from ShimEnded
  };

  void OnEvent(const AttemptKey& key, Shim& shim, const ShimEvent& event);
  void Seen(const AttemptKey& key, Shim& shim, int64_t now_ms);
  void OnGone(const AttemptKey& key, Shim shim);
  void GiveUp(const AttemptKey& key);

  // An attempt in the state directory without a living shim.
  struct Unsettled {
    v1::LaunchAttempt launch;                         // as far as known
    std::shared_ptr<const common::ShimLaunch> order;  // null: missing or damaged
    bool started = false;                             // a launch file exists, readable or not
    std::string damage;                               // which record is damaged; empty: none
  };
  // The marks that one scan of the host has to find, and those that it has to spare.
  struct Sweep;
  bool Adopt(const AttemptKey& key, const v1::LaunchAttempt& launch);
  void RestoreOne(const AttemptKey& key);
  void ClearOnce(std::shared_ptr<const Sweep> sweep, uint64_t clearing, const std::string& said);
  void HostIsClear(const std::vector<AttemptMark>& ended);
  void Settle(const AttemptKey& key, const Unsettled& found);
  // Calls `done` once nothing of an older attempt of the job is alive here.
  void EndOlderAttempts(const AttemptKey& key, std::function<void()> done,
                        const std::string& said = "");
  void FromExitRecord(const AttemptKey& key, const v1::LaunchAttempt& launch,
                      const common::ExitRecord& record);
  static void RemoveCgroups(const common::ShimLaunch& order);
  AttemptEndedInput ShimWasKilled(const AttemptKey& key) const;
  // Kills the remaining processes until none is left, then reports the end. `order`: the launch as
  // it was, because the file may have been damaged since; null: read the file. `said`: the
  // survivors last reported.
  void ProveEnd(const AttemptKey& key, const AttemptEndedInput& end,
                std::shared_ptr<const common::ShimLaunch> order = nullptr,
                const std::string& said = "");
  bool HasOwnView(const v1::LaunchAttempt& launch) const;
  ContainerPlace PlaceOfContainers(const AttemptKey& key, const v1::LaunchAttempt& launch) const;
  common::ShimLaunch MakeShimLaunch(const AttemptKey& key, const v1::LaunchAttempt& launch,
                                    std::vector<common::RankLaunch> ranks,
                                    const RankAccount& account, const std::string& mark) const;
  LaunchFacts FactsFor(const AttemptKey& key, const v1::LaunchAttempt& launch,
                       const RankAccount& account, const std::string& mark) const;
  std::string TrainerSocketOf(const AttemptKey& key, bool has_own_view) const;
  // `has_own_view`: the ranks see only their own of the worker's directories.
  absl::StatusOr<common::UniqueFd> ListenToRanks(const AttemptKey& key, bool has_own_view,
                                                 const common::LaunchAccount& account) const;

  const Setup setup_;
  IoThread* const io_;
  JobThreads* const threads_;
  RankReportQueue reports_;
  LaunchChecks checks_;
  const Callbacks callbacks_;  // input: after the reports of the attempt's ranks
  Preparations preparations_;
  std::map<AttemptKey, Launching> launching_;
  PortHolder ports_;
  std::map<AttemptKey, std::unique_ptr<Rendezvous>> rendezvous_;
  std::map<AttemptKey, PortBlock> port_blocks_;  // until the shim has its copy
  std::map<AttemptKey, Shim> shims_;
  std::map<AttemptKey, Unsettled> unsettled_;
  std::vector<std::string> disowned_;  // directories of attempts that must not be adopted
  bool new_boot_ = false, new_container_ = false;
  uint64_t incarnation_ = 0;
  std::vector<std::string> tags_;  // of this node's marks; new marks get the first
  uint64_t clearing_ = 0;          // results of older ones are ignored
  int64_t turn_ms_ = 0;
};

}  // namespace muster::worker
