// The shims of this node: starts them, listens to them, adopts them after a restart, and proves the
// end of those that were killed or do not answer. Control loop's thread; what blocks (killing what
// a dead shim left, looking over the host, looking at a job's files) goes to threads that may. What
// concerns the start of the worker and the clearing of its host is in attempt_restore.cc.
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

#include "common/kill_ladder.h"
#include "worker/core/decide.h"
#include "worker/identity.h"
#include "worker/io_thread.h"
#include "worker/launch_checks.h"
#include "worker/launch_environment.h"
#include "worker/leftovers.h"
#include "worker/paths.h"
#include "worker/port_holder.h"
#include "worker/rank_reports.h"
#include "worker/shim_client.h"
#include "worker/shim_watch.h"

namespace muster::worker {

class AttemptProcesses {
 public:
  struct Setup {
    Paths paths;
    std::string node;
    std::string advertise;
    std::string shim_binary;
    uint32_t cores = 1;
    std::set<std::string> device_kinds;  // of the devices that this node has
    common::CgroupHost cgroups;
    PortRange ports;
    uint64_t port_seed = 0;
    std::string
        coordinator;  // its address, for the tags of attempts until the cluster's id is known
  };
  struct Doors {
    std::function<void(Input)> input;                          // on the control loop's thread
    std::function<void(std::function<void()>)> in_background;  // runs it on a thread that may block
    std::function<void(std::function<void()>)> in_loop;  // from there back to the control loop
    std::function<void(const std::string&)> note;
  };
  AttemptProcesses(Setup setup, IoThread* io, JobThreads* threads, Doors doors);

  void HoldPorts(const HoldPortsAction& action);
  void ReleasePorts(const AttemptKey& key) { held_.erase(key); }
  void Prepare(const PrepareAction& action);
  void Spawn(const AttemptKey& key, const v1::LaunchAttempt& launch, int64_t fence_mono_ms);
  void Stop(const AttemptKey& key, uint32_t grace_ms);
  void MoveFence(const AttemptKey& key, int64_t fence_mono_ms);
  void Signal(const AttemptKey& key, int signal);
  void Trim(const AttemptKey& key, uint32_t rank, common::Stream stream, uint64_t offset,
            uint64_t index_records);
  // Everything in the state directory, once at start. Reads only: attempts with a living shim are
  // adopted, the others settled when the host is cleared.
  void Restore(const LoadedIdentity& identity);
  // However the coordinator's address is spelled. Empty: an older coordinator, which has none.
  void SetCluster(const std::string& cluster_id);
  void ClearHost(const ClearHostAction& action);
  void AbandonClearing() { ++clearing_; }

  void AppendPollFds(std::vector<pollfd>* fds) const;
  void OnReady(int fd);
  // SpoolSeen orders that wait for their time.
  std::optional<int64_t> NextDeadlineMs() const;
  void OnTime(int64_t now_ms);

 private:
  // A launch whose working directory and program are being looked at.
  struct Launching {
    v1::LaunchAttempt launch;
    int64_t fence_mono_ms = 0;
    std::string mark;
  };
  void HoldNow(const HoldPortsAction& action, const std::optional<LaunchProblem>& problem);
  void SpawnNow(const AttemptKey& key, const Launching& order,
                std::vector<common::RankLaunch> ranks);
  void SayUnlaunchable(const AttemptKey& key, uint32_t rank, const LaunchProblem& problem);
  struct Shim {
    std::unique_ptr<ShimClient> client;
    v1::LaunchAttempt launch;
    std::unique_ptr<ShimWatch> watch;
    uint32_t started = 0;
    uint64_t last_start = 0;  // of its ranks, in clock ticks since boot
    uint32_t exited = 0;
    bool grew = false;  // a SpoolSeen is owed
    int64_t seen_at_ms = 0;
    std::string how;  // ShimEnded said it
  };

  void OnEvent(const AttemptKey& key, Shim& shim, const ShimEvent& event);
  void Seen(const AttemptKey& key, Shim& shim, int64_t now_ms);
  void OnGone(const AttemptKey& key, Shim shim);
  void GiveUp(const AttemptKey& key);

  // An attempt of the state directory without a living shim that it belongs to.
  struct Unsettled {
    v1::LaunchAttempt launch;                         // as far as it is known
    std::shared_ptr<const common::ShimLaunch> order;  // null: missing or damaged
    bool started = false;                             // there is an order, readable or not
    std::string damage;                               // which record cannot be trusted; empty: none
  };
  // What one look over the host has to find and to spare.
  struct Sweep;
  bool Adopt(const AttemptKey& key, const v1::LaunchAttempt& launch);
  void RestoreOne(const AttemptKey& key);
  void ClearOnce(std::shared_ptr<const Sweep> sweep, uint64_t clearing, const std::string& said);
  void HostIsClear(const std::vector<AttemptMark>& ended);
  void Settle(const AttemptKey& key, const Unsettled& found);
  // Nothing of an older attempt of the job is alive here, then `done`.
  void EndOlderAttempts(const AttemptKey& key, std::function<void()> done,
                        const std::string& said = "");
  void FromExitRecord(const AttemptKey& key, const v1::LaunchAttempt& launch,
                      const common::ExitRecord& record);
  AttemptEndedInput ShimWasKilled(const AttemptKey& key) const;
  // Kills what is left until nothing is, then reports the end.
  // `order`: as it was launched; a file may be damaged since. Null: it is read.
  // `said`: what survived the last time, and was noted.
  void ProveEnd(const AttemptKey& key, const AttemptEndedInput& end,
                std::shared_ptr<const common::ShimLaunch> order = nullptr,
                const std::string& said = "");
  common::ShimLaunch MakeShimLaunch(const AttemptKey& key, const v1::LaunchAttempt& launch,
                                    std::vector<common::RankLaunch> ranks,
                                    const std::string& mark) const;
  LaunchFacts FactsFor(const AttemptKey& key, const v1::LaunchAttempt& launch,
                       const std::string& mark) const;

  const Setup setup_;
  IoThread* const io_;
  JobThreads* const threads_;
  RankReports reports_;
  LaunchChecks checks_;
  const Doors doors_;  // input: behind the reports of the attempt's ranks
  std::map<AttemptKey, Launching> launching_;
  PortHolder ports_;
  std::map<AttemptKey, std::vector<HeldPort>> held_;
  std::map<AttemptKey, Shim> shims_;
  std::map<AttemptKey, Unsettled> unsettled_;
  std::vector<std::string> disowned_;  // directories of attempts that nobody may adopt
  bool new_boot_ = false;
  uint64_t incarnation_ = 0;
  std::vector<std::string> tags_;  // of this node's marks; new ones get the first
  uint64_t clearing_ = 0;          // an older one's result counts for nothing
  int64_t turn_ms_ = 0;
};

}  // namespace muster::worker
