// One simulated worker and its state directory: a disk that survives, shims and ranks that outlive
// the worker, and the real worker core. Several may share a machine and a name (JoinHost): then
// each finds the other's ranks there.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/event_queue.h"
#include "tests/sim/witness.h"
#include "worker/core/decide.h"

namespace muster::sim {

// What the simulated trainers do; drawn per job by the world.
struct Behavior {
  int64_t run_ms = 1000;
  double fail_chance = 0;     // per attempt: one of its ranks exits with 1 during the run
  int64_t checkpoint_ms = 0;  // rank 0 saves this often; 0: never
};

class SimNode {
 public:
  // Messages leave through `send`, tagged with the link they belong to.
  struct Callbacks {
    std::function<void(SimNode&, uint64_t link, v1::WorkerMessage)> send;
    std::function<void(SimNode&)> dial;
    std::function<void(SimNode&, uint64_t link)> hang_up;
    std::function<Behavior(uint64_t job)> behavior;
    std::function<void(const std::string& sha256)> store_blob;
  };

  SimNode(EventQueue& queue, Witness& witness, std::string name, uint32_t devices,
          Callbacks callbacks);

  // Another state directory with the same node name on the same machine.
  void JoinHost(SimNode& other);
  void SetRate(double rate) { host_->rate = rate; }

  const std::string& name() const { return name_; }
  bool worker_alive() const { return worker_ != nullptr; }
  uint64_t link() const { return link_; }

  void LinkUp(uint64_t link);
  void LinkDown(uint64_t link);
  void Receive(uint64_t link, const v1::CoordinatorMessage& message);

  // Faults.
  void KillWorker();
  void StartWorker();
  void KillOneShim();
  void StopOneShim();  // SIGSTOP
  void DamageOneRecord();
  void LoseIdentity();
  void CopyStateFrom(const SimNode& other) { disk_ = other.disk_; }
  void Reboot();  // the whole machine
  // The whole machine: worker, shims and ranks, and the others on it. `unaware`: its clocks stand
  // still too, as those of a paused virtual machine do. Until GoOn, no other fault may happen to it.
  void StandStill() { host_->still = true; }
  void GoOn(int64_t stood_ms, bool unaware);
  bool still() const { return host_->still; }

 private:
  using Key = worker::AttemptKey;
  struct Rank {
    uint32_t number = 0;
    bool alive = false;
    int64_t started_ms = 0;
  };
  // A shim and the ranks it supervises; on disk once it has ended.
  struct Shim {
    std::vector<Rank> ranks;
    std::vector<v1::RankExit> exits;
    bool alive = true;
    bool stopping = false;
    bool spawned = false;
    bool stopped = false;  // it does nothing anymore, unnoticed by its ranks
    int64_t fence_mono_ms = 0;
    int64_t kill_mono_ms = 0;  // once it is stopping
    uint32_t grace_ms = 0;
  };
  struct Disk {
    const void* place = nullptr;  // identifies the directory, so that a copy is noticed
    std::set<Key> damaged;
    uint64_t incarnation = 0;
    uint64_t epoch = 0;
    int64_t lease_mono_ms = 0;
    std::map<Key, v1::LaunchAttempt> launches;
    std::map<Key, std::set<int64_t>> checkpoints;
  };

  // While the machine is frozen, nothing happens: it all happens when the machine resumes, in any order.
  void After(int64_t delay_ms, std::function<void()> action);
  void GoOnAlone();
  void Do(const worker::Action& action);
  void Feed(worker::Input input);
  void FeedLater(int64_t delay_ms, worker::Input input);
  void ArmTimer();
  void Spawn(const Key& key);
  void EndRank(const Key& key, size_t index, int code, int signal, bool by_us);
  void MoveFence(const Key& key, int64_t fence_mono_ms);
  void ArmFence(const Key& key);
  void StopShim(const Key& key, int64_t kill_mono_ms);
  void KillRanks(const Key& key);
  void ShimIsEmpty(const Key& key);
  void SaveCheckpoint(const Key& key);
  void SaveIfAsked(const Key& key);
  void LoadIdentity();
  void RestoreAttempts();
  void Settle(const Key& key);
  void ClearHost();
  // SIGKILL to a shim and its ranks, by their mark. True if any were alive.
  bool KillShim(const Key& key);
  void WatchSilence(const Key& key, int64_t patience_ms);
  void RebootAlone();
  common::Now Now() const;

  EventQueue& queue_;
  Witness& witness_;
  const std::string name_;
  const uint32_t devices_;
  const Callbacks callbacks_;
  const int64_t wall_skew_ms_;

  Disk disk_;
  std::vector<SimNode*> siblings_;
  std::shared_ptr<Host> host_ = std::make_shared<Host>();
  std::vector<std::function<void()>> waiting_;   // for the machine to resume
  std::vector<std::function<void()>> in_order_;  // likewise, what arrives in order
  std::set<Key> unsettled_;                      // of the current worker
  uint64_t clearing_ = 0;
  std::map<Key, Shim> shims_;
  uint64_t boot_ = 1;
  std::unique_ptr<worker::WorkerState> worker_;
  uint64_t process_ = 0;  // of the worker: closures of an older one do nothing
  uint64_t link_ = 0;     // 0: none
  int64_t armed_ms_ = -1;
  uint32_t next_port_ = 20000;
};

}  // namespace muster::sim
