#include "tests/sim/ledger.h"

#include <algorithm>
#include <utility>

#include "coordinator/core/state/apply.h"
#include "coordinator/core/state/invariants.h"
#include "coordinator/core/state/replayed.h"
#include "coordinator/core/views/views.h"
#include "tests/support/settled.h"

namespace muster::sim {

void Fits(const absl::Status& status) {
  if (!status.ok()) throw Broken(std::string(status.message()));
}

void Holds(const coordinator::ClusterState& state) {
  const std::string broken = coordinator::BrokenInvariant(state);
  if (!broken.empty()) throw Broken("J13: " + broken);
}

void Settled(const coordinator::ClusterState& state, common::Now now) {
  const std::string left = testing::LeftUndone(state, now);
  if (!left.empty()) throw Broken("a turn left a consequence undone: " + left);
}

void Ledger::Committed(const v1::Event& event) {
  events_.push_back(event);
  if (queue_.trace) {
    queue_.Trace(absl::StrCat(event.job() != 0 ? absl::StrCat("job ", event.job(), ": ") : "",
                              coordinator::DescribeEvent(event)));
  }
  CheckCheckpoint(event);
  CheckFinal(event);
  CheckGivingWay(event);
  CountUse(event);
}

void Ledger::CountUse(const v1::Event& event) {
  const std::pair key(event.job(), event.attempt());
  if (event.has_attempt_started()) {
    Use& use = uses_[key];
    use.since_ms = event.attempt_started().attempt().started_ms();
    for (const v1::NodePart& part : event.attempt_started().attempt().parts())
      use.devices[part.node()] = static_cast<uint64_t>(part.device_indexes_size());
  }
  if (event.has_part_ended()) {
    Use& use = uses_[key];
    const int64_t had_ms = std::max<int64_t>(0, event.at_ms() - use.since_ms);
    use.used_ms += std::exchange(use.devices[event.node()], 0) * static_cast<uint64_t>(had_ms);
  }
  if (!event.has_attempt_ended()) return;
  used_ms_ += uses_[key].used_ms;
  uses_.erase(key);
}

void Ledger::CheckIndex(const std::map<uint64_t, v1::JobRecord>& finished) const {
  for (const uint64_t job : ended_) {
    if (!finished.contains(job))
      throw Broken(absl::StrCat("J1: job ", job, " is over, and the index lacks it"));
  }
}

void Ledger::CheckRecovered(coordinator::ClusterState& recovered, common::Now now) const {
  coordinator::ClusterState whole;
  whole.settings = recovered.settings;
  for (const v1::Event& event : events_) {
    Fits(coordinator::ReplayEvent(whole, event, now));
    Holds(whole);
  }
  Fits(coordinator::CheckReplayed(whole));
  coordinator::TakeFinished(whole);
  for (coordinator::ClusterState* side : {&recovered, &whole}) {
    for (auto& [name, node] : side->nodes) {
      node.record.set_connected(false);
      node.record.set_last_contact_ms(0);
    }
  }
  if (coordinator::MakeSnapshot(recovered).SerializeAsString() !=
      coordinator::MakeSnapshot(whole).SerializeAsString()) {
    throw Broken("J11: the state from the snapshot differs from the state from the whole journal");
  }
  uint64_t booked_ms = 0;
  recovered.usage.Get().ForEachRow(
      [&](const auto&, const coordinator::UsedTime& time) { booked_ms += time.used_ms; });
  if (booked_ms != used_ms_) {
    throw Broken(
        absl::StrCat("attempts have used ", used_ms_, " ms, and ", booked_ms, " are in the book"));
  }
}

void Ledger::CheckCheckpoint(const v1::Event& event) {
  if (event.has_checkpoint_part()) {
    for (const v1::CheckpointFile& file : event.checkpoint_part().files()) {
      if (!has_blob_(file.sha256())) {
        throw Broken(
            absl::StrCat("J9: job ", event.job(), " lists a checkpoint whose bytes are not here"));
      }
    }
  }
  if (!event.has_checkpoint_committed()) return;
  const std::pair<uint32_t, int64_t> now{event.attempt(), event.checkpoint_committed().step()};
  auto& latest = latest_[event.job()];
  // Uploads of one attempt may finish in any order; `latest` is the highest. An older attempt must
  // no longer commit.
  if (now.first < latest.first) {
    throw Broken(
        absl::StrCat("J9: an older attempt of job ", event.job(), " committed a checkpoint"));
  }
  latest = std::max(latest, now);
}

// Q4: an attempt that gives way was asked before, and has saved since then or had its time for it. A second claim asks
// only what has not been asked, or was asked for a job that no longer claims.
void Ledger::CheckGivingWay(const v1::Event& event) {
  for (const v1::Victim& victim : event.claim_made().victims()) {
    if (victim.job() == event.job())
      throw Broken(absl::StrCat("Q4: job ", event.job(), " gives way to itself"));
    asked_[{victim.job(), victim.attempt()}] = {queue_.now_ms(), event.claim_made().period_ms(),
                                                false};
  }
  const std::pair key(event.job(), event.attempt());
  if (event.has_notice_given()) {
    const int64_t period_ms = event.notice_given().asked().period_ms();
    const auto [asked, is_first] =
        asked_by_person_.try_emplace(key, Asked{queue_.now_ms(), period_ms, false});
    // Counted from when it was asked first.
    if (!is_first) asked->second.period_ms = std::min(asked->second.period_ms, period_ms);
  }
  if (event.job_state_changed().to() == v1::JOB_STATE_RUNNING) ran_.insert(key);
  if (event.has_checkpoint_committed()) {
    for (ByAttempt* const each : {&asked_, &asked_by_person_}) {
      const auto asked = each->find(key);
      if (asked != each->end()) asked->second.has_saved = true;
    }
  }
  const v1::StopCause cause = event.stop_requested().cause();
  const bool by_person = cause == v1::STOP_CAUSE_HELD || cause == v1::STOP_CAUSE_DRAINED;
  if (!by_person && cause != v1::STOP_CAUSE_PREEMPTED) return;
  if (!HasHadTime(asked_, key) && !(by_person && HasHadTime(asked_by_person_, key)))
    throw Broken(absl::StrCat("Q4: job ", event.job(), " leaves without its time to save"));
}

bool Ledger::HasHadTime(const ByAttempt& all, const std::pair<uint64_t, uint32_t>& attempt) const {
  const auto asked = all.find(attempt);
  if (asked == all.end()) return false;
  if (asked->second.has_saved || !ran_.contains(attempt)) return true;
  // The coordinator's clock is not quite the world's, and of several it takes some seconds until the claim is durable.
  return queue_.now_ms() - asked->second.at_ms >= asked->second.period_ms * 9 / 10 - 4'000;
}

void Ledger::CheckFinal(const v1::Event& event) {
  if (ended_.contains(event.job()) && event.job() != 0) {
    throw Broken(absl::StrCat("J11: job ", event.job(), " had an event after its end"));
  }
  if (!event.has_job_state_changed() || !coordinator::IsFinal(event.job_state_changed().to()))
    return;
  ended_.insert(event.job());
  if (witness_.AnyAlive(event.job())) {
    throw Broken(absl::StrCat("J6: job ", event.job(), " is over and has live ranks"));
  }
}

}  // namespace muster::sim
