// One of several coordinators: keeps its copy of the database up to date while another one leads, and takes over
// when none does. README.md tells how they agree.
//
// Threads: one follows the log and campaigns, one renews the lease in etcd; while it leads, one watches that the term
// is not over, and one writes snapshots.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/base/term.h"
#include "coordinator/etcd/client.h"
#include "coordinator/heads/log.h"
#include "coordinator/stores/leading.h"
#include "coordinator/stores/replica.h"
#include "muster/v1/head.pb.h"

namespace muster::coordinator::heads {

// FAILED_PRECONDITION, JC1631: a state or a data directory that does not fit.
absl::Status Unusable(std::string what, std::string why, std::string fix);

class Head {
 public:
  struct Options {
    v1::HeadRecord self;  // name, endpoint, http, version
    int64_t lease_ms = 0;
    // A snapshot is written when the log has grown by this much, and by as much as the last one had.
    uint64_t snapshot_bytes_least = 32 << 20;
    std::string data_dir;  // for people
    // Any thread; must only enqueue. It leads: the replica is up to date and closed, and Lead() may be called.
    std::function<void()> leads;
    // Any thread, once. It cannot follow, with the reason: the process should exit.
    std::function<void(const absl::Status&)> failed;
    // Any thread, maybe more than once, while it leads: it must do nothing any more, at once.
    std::function<void(const absl::Status&)> lost;
  };

  // Opens the copy. Then call Start.
  static absl::StatusOr<std::unique_ptr<Head>> Open(std::unique_ptr<etcd::Client> client,
                                                    std::unique_ptr<ReplicaHome> home,
                                                    Options options);
  ~Head();
  // Checks that the copy belongs to the log, and registers. UNAVAILABLE, DEADLINE_EXCEEDED: etcd does not answer.
  // FAILED_PRECONDITION: it does not belong. Start does it, too, as often as it takes.
  absl::Status Join();
  void Start();
  // After `leads`. Lives as long as this.
  const Leading& Lead() const { return *leading_; }
  HeadsView View() const;
  // Gives up the lease, so that another one leads at once. Nothing may be committed any more.
  void Resign();

 private:
  Head(std::unique_ptr<etcd::Client> client, std::unique_ptr<ReplicaHome> home, Options options);

  absl::Status CheckLog();
  absl::StatusOr<v1::CommitLogMark> ReadOrMakeMark();
  absl::Status GrantLease();
  // What it registers.
  v1::HeadRecord Self() const;
  absl::Status Register();
  // The first time: no other coordinator has its name.
  absl::Status TakeName();

  void Follow();
  // False: stopping, or failed.
  bool KeepJoining();
  // One look at the log and the leader. True: it leads now.
  absl::StatusOr<bool> FollowOnce();
  absl::StatusOr<bool> ApplyPage(bool linearizable);
  absl::StatusOr<bool> Campaign();
  absl::Status CatchUp();
  // Puts the snapshot in etcd into the place of the copy.
  absl::Status Load(const std::optional<v1::SnapshotMark>& mark);
  absl::Status LoadIfBehindSnapshot();
  void BeginToLead();

  // While it leads: writes a snapshot whenever the log has grown enough.
  void KeepLogShort();
  absl::Status WriteSnapshotIfDue();
  uint64_t MayBeTrimmedTo(uint64_t position) const;

  void Keep();
  absl::Status KeepOnce();
  // Reads who leads and who is registered. Returns the term that the leader's key has now; 0: none leads.
  absl::StatusOr<int64_t> Look();
  // Puts it into the place of the last one.
  void See(HeadsView view);
  // What the last look found of this one is what it would register now.
  bool IsRegisteredAsItIs() const;
  void WatchTerm();
  void Lost(const absl::Status& why);
  // The same, found by our own threads: one that has resigned knows it, and need not start over.
  void FoundOver(const absl::Status& why);
  // False: stopping.
  bool Sleep(int64_t ms);
  int64_t TermRevision() const;

  const std::unique_ptr<etcd::Client> client_;
  const std::unique_ptr<ReplicaHome> home_;
  const Options options_;
  Term term_;

  // Used by the thread that follows, and by Open.
  std::unique_ptr<Replica> replica_;
  PieceReader reader_{0};
  std::string last_trouble_;
  bool has_joined_ = false;

  // Set by the thread that follows before `leads` is called.
  std::unique_ptr<EtcdLog> log_;
  std::unique_ptr<Leading> leading_;

  // Used by the thread that keeps the log short.
  std::optional<v1::SnapshotMark> snapshot_;  // empty: not read yet
  uint64_t bytes_at_snapshot_ = 0;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  int64_t lease_ = 0;
  int64_t ttl_ms_ = 0;
  int64_t renewed_sent_ms_ = 0;  // when the last renewal that was answered was sent
  std::optional<int64_t> term_revision_;
  uint64_t position_ = 0;
  HeadsView view_;
  std::atomic<uint64_t> changes_{0};  // Leading::changes
  bool stopping_ = false;
  std::thread follower_, keeper_, watcher_, shortener_;
};

}  // namespace muster::coordinator::heads
