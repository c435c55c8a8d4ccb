// The one thread that owns the cluster's state: takes inputs, lets the core decide, hands the facts
// to the journal and releases the effects (replies, commands, watch updates) once they are durable.
//
// Answers to queries wait for the same durability, so no client sees state that a crash could undo.
// Only heartbeat replies go out immediately, so that a slow disk never costs a lease. The thread
// never waits for a disk or a network.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "coordinator/base/fair_share.h"
#include "coordinator/base/turn_queue.h"
#include "coordinator/base/watch_hub.h"
#include "coordinator/core/state/input.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/turn.h"
#include "coordinator/stores/job_index.h"
#include "coordinator/stores/journal.h"
#include "coordinator/stores/projection.h"

namespace muster::coordinator {

// The write end of one worker's control stream. Any thread; never blocks.
class CommandSink {
 public:
  virtual ~CommandSink() = default;
  virtual void Send(v1::CoordinatorMessage message) = 0;
  // Ends the stream with this status, after what was already sent.
  virtual void Close(const absl::Status& status) = 0;
};

// What a query may read, on the control loop's thread.
struct LoopView {
  const ClusterState& state;
  const std::map<std::string, uint64_t>& live_names;
  common::Now now;
  WatchHub& watches;
  // Sends a command that changes nothing here to a node's stream, if it has one.
  std::function<void(const std::string& node, v1::CoordinatorMessage)> send;
};

// Callbacks on the control loop's thread; they must only enqueue.
struct LoopCallbacks {
  std::function<void(size_t live_jobs)> live_jobs;
  std::function<void(const std::vector<std::string>& blobs)> unused_blobs;
  // Fills in fields that only the metric store has.
  std::function<void(v1::JobSummary&)> decorate;
  std::function<void(const Denial&)> denied;
};

class ControlLoop {
 public:
  static constexpr size_t kInputsPerTurn = 256;
  // limit: calls: clients' requests that wait for the control loop, all and of one caller, who take turns;
  // RESOURCE_EXHAUSTED. Workers' reports are always accepted
  static constexpr FairShare::Limits kQueuedRequests{
      .most = 16'384, .of_one = 4'096};  // of clients, of one caller; more are refused
  // limit: calls: events that are not durable yet; new requests are refused
  static constexpr size_t kPendingJournalBytesMax = 64 << 20;  // beyond it new requests are refused
  // A snapshot is taken after so many events, or after so many bytes of them and as many as it had the last time.
  static constexpr uint64_t kEventsPerSnapshot = 10'000;
  static constexpr size_t kEventBytesPerSnapshot = 16 << 20;

  using Done = std::function<void(const Reply&)>;
  // Reads the state; the function it returns runs once everything it saw is durable.
  using Question = std::function<std::function<void()>(const LoopView&)>;
  using Refused = std::function<void(const absl::Status&)>;

  ControlLoop(Journal& journal, const common::Clock& clock, Settings settings);
  ~ControlLoop();

  // Replays the journal and takes the first turn. `finished` has the jobs that are over; null: there
  // are none. Before Start.
  absl::Status Recover(JobIndex* finished = nullptr);
  void Start(LoopCallbacks callbacks);
  // Waits until every accepted input is durable, writes a snapshot, ends the thread.
  void Stop();

  // A client's request: callers take turns. RESOURCE_EXHAUSTED at once if the disk or the queue is
  // full, or the caller has used up its share of the queue.
  absl::Status Submit(Input input, Done done);
  // A fact that may not be refused: from a worker (whose stream sends one at a time) or from the
  // coordinator itself. `taken` runs once the loop has accepted it (not once it is durable).
  void Say(Input input, std::function<void()> taken = nullptr);
  // A registration: the sink becomes the node's sink if the core accepts the registration,
  // otherwise it is closed.
  void Register(WorkerRegisteredInput input, std::shared_ptr<CommandSink> sink);
  // If the disk is full, `refused` is called with the reason instead.
  void Ask(Question question, Refused refused = nullptr);
  // A finished job's record changed (a checkpoint was removed). `done` runs once that is durable.
  void RewriteFinished(std::shared_ptr<const v1::JobRecord> record, std::function<void()> done);

  // From the journal's thread.
  void OnDurable(uint64_t turn);
  void OnDiskFull(bool full) { disk_full_ = full; }
  // RESOURCE_EXHAUSTED: the disk is full, so no job can be submitted.
  absl::Status MaySubmit() const;
  void OnStuck(const absl::Status& why);

  uint64_t NextSession() { return next_session_++; }
  // Why answers that need the disk have to wait until space is freed; OK if there is room.
  absl::Status WhyStuck() const;

 private:
  struct Rewrite {
    std::shared_ptr<const v1::JobRecord> record;
    std::function<void()> done;
  };
  // The control stream on which a registration came.
  struct Registrant {
    std::string node;
    uint64_t session = 0;
    std::shared_ptr<CommandSink> sink;
  };
  struct Entry {
    std::variant<Input, Question, Rewrite> what;
    Done done;
    std::function<void()> taken;
    std::optional<Registrant> registrant;
    Refused refused;
  };
  struct Release {
    uint64_t turn = 0;
    std::vector<std::function<void()>> effects;
    Refused refused;  // called instead of releasing the effects if the disk is full
  };
  struct Stream {
    uint64_t session = 0;
    std::shared_ptr<CommandSink> sink;
  };

  void Run();
  bool TakeEntries(std::vector<Entry>& entries);
  void TakeInputs(std::vector<Entry>& entries);
  void AnswerQuestions(std::vector<Entry>& entries);
  void RewriteRow(Rewrite rewrite);
  // Journals the turn and queues its effects.
  void Finish(Turn turn, std::vector<Entry>* entries, common::Now now);
  void TakeSnapshotIfDue(JournalRecord& record);
  // Logs once when a problem with the whole cluster begins, and once when it ends.
  void SayAlarm();
  JournalRecord RecordOf(Turn& turn, common::Now now);
  FinishedJob RowOf(std::shared_ptr<const v1::JobRecord> record) const;
  void QueueReplies(Turn& turn, std::vector<Entry>& entries, Release& release);
  void QueueCommands(Turn& turn, Release& release);
  void QueueWatches(const Turn& turn, const JournalRecord& record, Release& release);
  void QueueObserver(Turn& turn, Release& release);
  void TakeOver(Registrant registrant, const absl::Status& verdict);
  void SendCommand(const std::string& node, v1::CoordinatorMessage message);
  void ReleaseDurable();
  void RefuseWhatIsStuck();
  void Push(Entry entry);
  // With the lock held: whether another request of the caller has room.
  absl::Status MayQueue(const std::string& caller) const;

  // Set once.
  Journal& journal_;
  const common::Clock& clock_;
  LoopCallbacks callbacks_;

  // Used by the loop thread (and by Recover, before the thread exists).
  ClusterState state_;
  std::map<std::string, uint64_t> live_names_;
  std::map<uint64_t, std::string> names_of_live_;
  WatchHub watches_;
  std::map<std::string, Stream> streams_;  // by node
  std::deque<Release> releases_;
  uint64_t next_turn_ = 1;
  uint64_t last_appended_ = 0;
  uint64_t events_since_snapshot_ = 0;
  size_t bytes_since_snapshot_ = 0;
  size_t bytes_of_snapshot_ = 0;
  std::string alarm_;
  std::optional<uint64_t> asked_at_try_;  // the last reserve, by stuck_tries_

  std::atomic<uint64_t> next_session_ = 1;
  std::atomic<bool> disk_full_ = false;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  TurnQueue<Entry> queue_;  // requests by their callers
  FairShare queued_requests_{kQueuedRequests};
  uint64_t durable_turn_ = 0;
  absl::Status why_stuck_;
  uint64_t stuck_tries_ = 0;  // failed commits since the journal got stuck
  bool got_stuck_ = false;    // since the loop last checked
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace muster::coordinator
