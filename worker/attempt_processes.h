// The shims of this node: starts them, listens to them, adopts them after a restart, and proves the
// end of those that were killed. Control loop's thread; what blocks (killing what a dead shim left,
// looking at a job's files) goes to threads that may.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/kill_ladder.h"
#include "worker/core/decide.h"
#include "worker/io_thread.h"
#include "worker/launch_checks.h"
#include "worker/launch_environment.h"
#include "worker/paths.h"
#include "worker/port_holder.h"
#include "worker/rank_reports.h"
#include "worker/shim_client.h"

namespace muster::worker {

class AttemptProcesses {
 public:
  struct Setup {
    Paths paths;
    std::string node;
    std::string advertise;
    std::string shim_binary;
    uint32_t cores = 1;
    bool has_gpus = false;
    bool has_npus = false;
    common::CgroupHost cgroups;
    PortRange ports;
    uint64_t port_seed = 0;
    std::string node_tag;  // NodeTag
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
  // Everything in the state directory, once at start. `new_boot`: nothing of it can be alive.
  void Restore(bool new_boot);

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
    uint32_t started = 0;
    bool grew = false;  // a SpoolSeen is owed
    int64_t seen_at_ms = 0;
    std::string how;  // ShimEnded said it
  };

  void OnEvent(const AttemptKey& key, Shim& shim, const ShimEvent& event);
  void Seen(const AttemptKey& key, Shim& shim, int64_t now_ms);
  void OnGone(const AttemptKey& key, Shim shim);
  void RestoreOne(const AttemptKey& key, const v1::LaunchAttempt& launch, bool new_boot);
  void FromExitRecord(const AttemptKey& key, const v1::LaunchAttempt& launch,
                      const common::ExitRecord& record);
  // Kills what is left until nothing is, then reports the end.
  // `said`: what survived the last time, and was noted.
  void ProveEnd(const AttemptKey& key, const AttemptEndedInput& end, const std::string& said = "");
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
};

}  // namespace muster::worker
