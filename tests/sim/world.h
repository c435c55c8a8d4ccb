// A whole simulated cluster: one coordinator, or several that replace each other, some nodes, the network between them,
// a client that never gives up, and a source of faults. One seed decides everything.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/event_queue.h"
#include "tests/sim/ledger.h"
#include "tests/sim/server.h"
#include "tests/sim/shared_log.h"
#include "tests/sim/sim_etcd.h"
#include "tests/sim/sim_head.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/witness.h"
#include "worker/links/head_rounds.h"

namespace muster::sim {

struct Result {
  uint64_t events = 0;  // journaled
  uint64_t rank_starts = 0;
  uint64_t overtaken = 0;  // ranks that stood still while their job ran elsewhere, or ended
  uint64_t jobs = 0;
  uint64_t faults = 0;
  uint64_t takeovers = 0;
  uint64_t reads = 0;  // answered
  int64_t simulated_ms = 0;
};

class World {
 public:
  struct Options {
    bool trace = false;  // every event and fault is printed
    int heads = 1;       // 1: one coordinator with its own journal
    Plants plants = {};
  };
  World(uint64_t seed, const Options& options);
  // Throws Broken for the first promise that does not hold.
  Result Run();

 private:
  struct Link {
    SimNode* node;
    Server* server;
    int64_t last_up_ms = 0;  // each direction delivers in order
    int64_t last_down_ms = 0;
    bool closed = false;
    bool drains = false;  // what was sent before it was closed still arrives
  };

  void Dial(SimNode& node);
  void HangUp(uint64_t link);
  void FromNode(SimNode& node, uint64_t link, v1::WorkerMessage message);
  void Deliver(Server& server, const coordinator::Command& command, uint64_t epoch);
  void ServerKilled(Server& server);
  void Connect(SimNode& node, Server& server);
  void DialInTurn(SimNode& node);
  void AskInTurn(SimNode& node, Server& server);
  int64_t Latency();

  void MakeServers(const Options& options);
  // The one that would answer; null: none.
  Server* Leader() const;
  Server& AnyServer();  // that a client asks
  void ReadOften();
  void NoteOften();
  void BreakHead(SimHead& head, int64_t fault);
  void BreakNewLeader(const std::string& record);
  SimHead& DrawHead();
  int64_t DrawOutage();
  double DrawRate(double most);

  void SubmitLater(uint64_t number);
  void Submit(uint64_t number);
  static coordinator::SubmitInput SubmitOf(uint64_t number, const std::string& key);
  void ResubmitOften();
  void CancelSome();
  void BreakSomething();
  void Break(SimNode& node, int64_t fault);
  void AddNodes();
  std::unique_ptr<SimNode> MakeNode(const std::string& name);
  void StandStill(SimNode& node, bool unaware);
  void StartSecondWorker();
  void KillLater(SimNode& other);
  void ReplayOldReport();
  void ReleaseHeld();
  void ShareOften();
  void ShareForGood();
  void StopSome(Server& leader);
  void Undrain(const std::string& node);
  void TakeBackImpossible();
  void CheckEnd();
  Behavior BehaviorOf(uint64_t job);

  EventQueue queue_;
  Witness witness_;
  Ledger ledger_;
  // Several heads only: what they share.
  std::unique_ptr<SharedLog> log_;
  std::unique_ptr<SimEtcd> etcd_;
  std::vector<SimHead*> heads_;
  std::vector<std::string> names_;  // of the heads
  int64_t lease_ms_ = 0;
  double spares_heads_ = 0;
  std::map<const SimNode*, worker::HeadRounds> rounds_;
  uint64_t reads_ = 0;
  uint64_t next_note_ = 1;
  std::set<uint64_t> noted_;  // acknowledged

  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::vector<std::unique_ptr<SimNode>> others_;  // second workers: with a node's name, or another
  std::map<uint64_t, Link> links_;
  std::map<std::pair<const Server*, std::string>, uint64_t> link_of_node_;  // as the server sees it
  uint64_t next_link_ = 1;
  std::set<std::string> partitioned_;
  std::set<std::string> blobs_;
  std::map<uint64_t, Behavior> behaviors_;
  std::vector<std::pair<std::string, v1::AttemptStatus>> old_reports_;
  uint64_t jobs_to_submit_ = 0;
  uint64_t faults_ = 0;
  bool calm_ = false;  // faults have stopped
};

}  // namespace muster::sim
