// What is durable, of one coordinator or of several: checked as it is committed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/state/state.h"
#include "muster/v1/event.pb.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/witness.h"

namespace muster::sim {

class Ledger {
 public:
  Ledger(EventQueue& queue, Witness& witness, std::function<bool(const std::string&)> has_blob)
      : queue_(queue), witness_(witness), has_blob_(std::move(has_blob)) {}

  void Committed(const v1::Event& event);
  const std::vector<v1::Event>& events() const { return events_; }
  // The index of finished jobs has what the events before have ended.
  void CheckIndex(const std::map<uint64_t, v1::JobRecord>& finished) const;
  // J11: the state that was recovered is the one of all events.
  void CheckRecovered(coordinator::ClusterState& recovered, common::Now now) const;

 private:
  void CheckCheckpoint(const v1::Event& event);
  void CheckFinal(const v1::Event& event);
  void CheckGivingWay(const v1::Event& event);
  void CountUse(const v1::Event& event);

  EventQueue& queue_;
  Witness& witness_;
  const std::function<bool(const std::string& sha256)> has_blob_;
  std::vector<v1::Event> events_;
  std::set<uint64_t> ended_;                                 // J11: final is final
  std::map<uint64_t, std::pair<uint32_t, int64_t>> latest_;  // J9
  struct Asked {
    int64_t at_ms = 0;
    int64_t period_ms = 0;
    bool has_saved = false;  // since then
  };
  struct Use {
    int64_t since_ms = 0;
    std::map<std::string, uint64_t> devices;  // by node, of parts that live
    uint64_t used_ms = 0;                     // of one device
  };
  std::map<std::pair<uint64_t, uint32_t>, Use> uses_;                // of attempts that live
  uint64_t used_ms_ = 0;                                             // of those that have ended
  using ByAttempt = std::map<std::pair<uint64_t, uint32_t>, Asked>;  // by job and attempt
  bool HasHadTime(const ByAttempt& asked, const std::pair<uint64_t, uint32_t>& attempt) const;
  ByAttempt asked_;  // Q4: for another job
  ByAttempt asked_by_person_;
  std::set<std::pair<uint64_t, uint32_t>> ran_;
};

// Short, so that a run sees many jobs give way.
inline void ShortenSharing(coordinator::Settings& settings) {
  settings.min_run_ms = 4'000;
  settings.notice_ms = 10'000;
  settings.reclaim_after_ms = 1'000;
}

// Throws Broken.
void Fits(const absl::Status& status);
// J13: the indexes and sums of the state agree with it after every event.
void Holds(const coordinator::ClusterState& state);
void Settled(const coordinator::ClusterState& state, common::Now now);  // after a turn

}  // namespace muster::sim
