// Tells webhooks that jobs have ended: at least once, also if the coordinator is killed meanwhile.
//
// It follows the events of the journal. What is still to be delivered, and up to which event it has
// looked, is in one small file; after a restart it continues from there. One thread keeps that
// state, two others wait for receivers; the control loop only enqueues.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "coordinator/control_loop.h"
#include "coordinator/notify/address.h"
#include "coordinator/stores/job_index.h"
#include "coordinator/work_pool.h"

namespace muster::coordinator {

class Notifier {
 public:
  static constexpr size_t kPendingMax = 10'000;
  static constexpr int64_t kGiveUpAfterMs = 24 * 3'600'000;

  struct Options {
    std::string path;              // its file
    std::string cluster_id;        // part of every delivery's name
    std::vector<Network> allowed;  // besides public addresses
    int64_t first_pause_ms = 1'000;
  };
  Notifier(Options options, JobIndex& index, const common::Clock& clock);
  ~Notifier() { Stop(); }

  // Continues where the last one stopped; a first one starts with what ends from now on.
  absl::Status Start(ControlLoop& loop);
  // Leaves what is not delivered to the next start.
  void Stop();
  // Deliveries that were not tried yet, and turns that may hold more. Any thread.
  size_t Untried() const { return untried_; }

 private:
  // A job and the number of its `notify` entry.
  using Key = std::pair<uint64_t, int>;
  struct Pending {
    int64_t since_ms = 0;  // wall clock: a restart does not begin the day anew
    int tries = 0;
  };

  absl::Status Load();
  void Save();
  // All on the keeper's thread.
  void CatchUp(uint64_t until);
  // The ends between the last run of the coordinator and event `until`.
  void LookBack(uint64_t until);
  void TakeEvents(const std::vector<v1::Event>& events);
  void TakeEnd(uint64_t job, v1::JobState state);
  void Try(const Key& key);
  void Finish(const Key& key, const absl::StatusOr<int>& answer);
  void Drop(const Key& key);

  const Options options_;
  JobIndex& index_;
  const common::Clock& clock_;
  std::map<Key, Pending> pending_;
  uint64_t cursor_ = 0;  // of the last event that was looked at
  bool has_cursor_ = false;
  std::atomic<size_t> untried_{0};
  std::atomic<bool> stopping_{false};
  WatchToken token_;
  WorkPool posts_{2};
  WorkPool keeper_{1};
};

}  // namespace muster::coordinator
