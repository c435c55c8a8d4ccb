// Tells webhooks and commands what happened to jobs (JobSpec.notify): at least once, even if the
// coordinator is killed meanwhile.
//
// It follows the events of the journal. One note (stores/note_store.h) has what is still to be delivered,
// and the last event that was processed; after a restart it continues from there. Commands run on a
// worker; how they ended, and which webhooks were given up, becomes an event of the job, and only that
// event ends the delivery. One thread keeps that state, others wait for receivers, and owners share these;
// the control loop only enqueues.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "coordinator/base/work_pool.h"
#include "coordinator/loop/control_loop.h"
#include "coordinator/notify/address.h"
#include "coordinator/notify/backlog.h"
#include "coordinator/notify/delivery.h"
#include "coordinator/notify/post_turns.h"
#include "coordinator/stores/job_index.h"
#include "coordinator/stores/note_store.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

class Notifier {
 public:
  // limit: notify: undelivered notices; the owner with the most gives up the newest, and an event reports it
  static constexpr size_t kPendingMax = 10'000;
  // limit: notify: until an undelivered webhook is given up; an event reports it
  static constexpr int64_t kGiveUpAfterMs = 24 * 3'600'000;

  struct Options {
    std::string cluster_id;        // part of every delivery's name
    std::vector<Network> allowed;  // in addition to public addresses
    int64_t first_pause_ms = 1'000;
    std::function<void(const Denial&)> denied = nullptr;  // an answer of a node that was not asked
    // Decrypts the environment of the job's spec; null: it is in clear.
    std::function<absl::Status(v1::JobSpec&)> open_environment = nullptr;
  };
  Notifier(Options options, NoteStore& notes, JobIndex& index, const common::Clock& clock);
  ~Notifier() { Stop(); }

  // Continues where the last run stopped; the first run starts with what happens from now on.
  absl::Status Start(ControlLoop& loop);
  // Leaves what is not delivered to the next start.
  void Stop();
  // A worker's answer to a RunNotify. Any thread.
  void Answered(v1::NotifyEnded ended);
  // Deliveries that were not tried yet, and turns that may hold more. Any thread.
  size_t Untried() const { return untried_; }
  // It has not yet seen all that happened before it started. Any thread.
  bool NeedsOldEvents() const { return catches_up_; }

 private:
  using Pending = Backlog::Pending;

  absl::Status Load();
  void Save();
  // All on the keeper's thread. Handles what happened between the last run of the coordinator and event
  // `until`, a few events at a time, then what that run left.
  void CatchUp(uint64_t until);
  void TakeMissed(uint64_t until);
  void EndCatchingUp();
  void KnowOwnersOfLeft();
  // Gives up the deliveries beyond the limit of those that may wait.
  void GiveUpExcess();
  void TakeEvents(const std::vector<v1::Event>& events);
  void TakeEnd(uint64_t job, v1::JobState state);
  void TakeFinding(const v1::Event& event);
  void TakeNotified(const v1::Event& event);
  // `owner`: of the job; empty: it is not known yet.
  void Add(const Delivery& delivery, const std::string& owner);
  void Try(const Delivery& delivery);
  void TryFinished(const Delivery& delivery);
  void TryWith(const Delivery& delivery, v1::JobRecord job);
  void TryPost(const Delivery& delivery, const v1::JobRecord& job);
  // Calls receivers as long as there are threads for them.
  void Post();
  void Posted(const Delivery& delivery, const std::string& host, const absl::StatusOr<int>& answer);
  void TryRun(const Delivery& delivery, const v1::JobRecord& job);
  // `node` is running it; empty: none is connected, and with `any_left` one may come back.
  void Asked(const Delivery& delivery, const std::string& node, bool any_left);
  void RunAgain(const Delivery& delivery, const std::string& why);
  void TryLater(const Delivery& delivery, std::chrono::milliseconds pause);
  void CountTry(Pending& pending);
  // The delivery is over: records an event of the job, which then drops the delivery.
  void Report(const Delivery& delivery, const std::string& outcome, const std::string& output = "");
  void Drop(const Delivery& delivery);
  // The same; the caller saves.
  void Forget(const Delivery& delivery);

  const Options options_;
  NoteStore& notes_;
  JobIndex& index_;
  const common::Clock& clock_;
  ControlLoop* loop_ = nullptr;  // set by Start
  Backlog pending_{kPendingMax};
  PostTurns turns_;
  std::vector<Delivery> left_;  // by the last run, until this one has caught up
  uint64_t cursor_ = 0;         // of the last event that was processed
  uint64_t newest_ = 0;         // the same; ahead of the cursor until it has caught up
  bool has_cursor_ = false;
  std::atomic<bool> catches_up_ = false;
  std::atomic<size_t> untried_{0};
  std::atomic<bool> stopping_{false};
  WatchToken token_;
  WorkPool posts_{PostTurns::kAtOnce};
  WorkPool keeper_{1};
};

}  // namespace muster::coordinator
