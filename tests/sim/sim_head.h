// One of several coordinators, as coordinator/heads/head.cc, log.cc and loop/control_loop.cc are: the same steps, over
// the real core, the real rules of the election, and models of etcd, clock and threads. Each of the daemon's threads is
// a chain of closures; a stopped process does nothing, and then everything that was due, in any order.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/base/term.h"
#include "coordinator/core/turn.h"
#include "coordinator/election/election.h"
#include "coordinator/election/pieces.h"
#include "tests/sim/etcd_calls.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/ledger.h"
#include "tests/sim/server.h"
#include "tests/sim/shared_log.h"

namespace muster::sim {

// Bugs that the checks have to find.
struct Plants {
  bool no_term_compare = false;  // the log's transactions do not compare the leader's key
  bool no_two_thirds = false;    // heartbeats are answered until etcd tells that the term is over
};

class SimHead final : public Server {
 public:
  struct Options {
    std::string name;
    double rate = 1;  // how fast its clock runs
    int64_t lease_ms = 5'000;
    Plants plants;
  };
  SimHead(EventQueue& queue, SimEtcd& etcd, SharedLog& log, Ledger& ledger, Callbacks callbacks,
          Options options);

  const std::string& name() const override { return options_.name; }
  bool alive() const override { return is_running_; }
  bool leads() const override { return state_ != nullptr; }
  bool is_paused() const override { return is_paused_; }
  bool may_answer() const override { return leads() && !is_paused_ && IsSure(); }
  const coordinator::ClusterState& state() const override { return *state_; }
  uint64_t epoch() const override { return epoch_; }
  const std::map<uint64_t, v1::JobRecord>& finished() const override { return copy_.finished; }
  common::Now Now() const override;

  void Start() override;
  void Kill() override;
  void Take(coordinator::Input input, ReplySink reply = nullptr) override;
  void List(ListSink sink) override;

  // A call that another store than the journal takes, in a separate transaction.
  void Note(uint64_t number, std::function<void()> noted);

  void Pause();
  void GoOn();
  void Resign();  // SIGTERM
  void CutFromEtcd(bool is_cut) { etcd_calls_.Cut(is_cut); }
  // Its copy of the log.
  uint64_t position() const { return copy_.position; }
  uint64_t takeovers() const { return takeovers_; }

 private:
  // What SQLite has here.
  struct Copy {
    uint64_t position = 0;
    uint64_t epoch = 0;
    std::vector<v1::Event> events;
    std::optional<v1::Snapshot> snapshot;
    size_t snapshot_size = 0;  // of `events`
    std::map<uint64_t, v1::JobRecord> finished;
    std::set<uint64_t> notes;
    void Apply(uint64_t at, Entry entry);
  };
  struct Release {
    uint64_t turn = 0;
    std::vector<std::function<void()>> effects;
  };
  struct Pending {
    uint64_t turn = 0;
    Entry entry;
  };
  using Done = std::function<void(absl::Status)>;

  int64_t MonoMs() const;
  void After(int64_t ms, std::function<void()> action);
  void Wake(uint64_t life, std::function<void()> action);
  void StartOver(const char* why);
  void Forget();  // what a process has in memory

  // The thread that follows.
  void GrantLease(Done done);
  void Follow();
  void FollowAgain(int64_t pause_ms);
  void ReadAll(bool linearizable, Done done);
  void LookForLeader();
  void Campaign();
  v1::HeadRecord Self() const;
  void CatchUp();
  void BeginToLead();
  absl::Status ApplyPage(const etcdserverpb::RangeResponse& page);

  // The thread that renews, and the one that watches the term.
  void Keep();
  void KeepOnce();
  void Renewed(bool is_leader, int64_t sent_ms, int64_t ttl_ms);
  void WatchTerm();

  // The leader.
  bool IsSure() const { return MonoMs() < term_->SureUntilMs(); }
  bool MayAct(const char* what);
  void Answer(const ReplySink& reply, const coordinator::Reply& text, const char* what);
  void RaiseEpoch();
  void Recover();
  void Finish(coordinator::Turn turn, std::vector<ReplySink> replies);
  void Send(const coordinator::Command& command);
  void ReleaseDurable();
  void Write();
  void Append(std::string changes, Done done);
  void AppendPiece(std::string value, Done done);
  void ArmTimer();

  EventQueue& queue_;
  SimEtcd& etcd_;
  SharedLog& log_;
  Ledger& ledger_;
  const Callbacks callbacks_;
  const Options options_;
  const int64_t mono_offset_ms_;
  const int64_t wall_skew_ms_;
  EtcdCalls etcd_calls_;
  Copy copy_;  // on disk
  uint64_t takeovers_ = 0;

  // The process.
  bool is_running_ = false;
  bool is_paused_ = false;
  uint64_t life_ = 0;                                      // closures of an older life do nothing
  std::vector<std::function<void()>> waiting_, in_order_;  // until a stopped process resumes
  uint64_t instance_ = 0;
  coordinator::election::Lease lease_;
  std::optional<int64_t> term_revision_;
  std::unique_ptr<coordinator::Term> term_;
  uint64_t number_ = 0;  // of the last piece that was read, or added
  coordinator::election::Gathering gathering_;
  int64_t seen_revision_ = 0;
  bool is_idle_ = false;  // nothing has changed since the last look

  // While it leads.
  std::unique_ptr<coordinator::ClusterState> state_;
  uint64_t writer_ = 0;
  uint64_t epoch_ = 0;
  std::map<uint64_t, v1::JobRecord>
      index_;  // of finished jobs, also of turns that are not durable yet
  std::map<std::string, uint64_t> streams_;  // of nodes that are registered: their sessions
  std::deque<Release> releases_;
  std::deque<Pending> pending_;
  bool is_writing_ = false;
  uint64_t last_appended_ = 0, durable_turn_ = 0;
  size_t since_snapshot_ = 0;
  int64_t armed_ms_ = -1;
};

}  // namespace muster::sim
