#include "coordinator/core/scheduling/schedule.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/text/text.h"
#include "coordinator/core/scheduling/pass.h"

namespace muster::coordinator {
namespace {

v1::Event EventOf(const v1::JobRecord& job, Now now) {
  v1::Event event;
  event.set_job(job.id());
  event.set_at_ms(now.wall_ms);
  return event;
}

std::string StartingReason(const v1::Attempt& attempt) {
  std::string text = absl::StrCat(common::Counted(attempt.world_size(), "rank"), " on ",
                                  common::Counted(attempt.parts_size(), "node"));
  if (attempt.resume_step() >= 0) {
    absl::StrAppend(&text, ", from the checkpoint of step ", attempt.resume_step());
  }
  return text;
}

void AddStart(const v1::JobRecord& job, v1::Attempt attempt, Now now,
              std::vector<v1::Event>& events) {
  v1::Event moved = EventOf(job, now);
  moved.mutable_job_state_changed()->set_from(job.state());
  moved.mutable_job_state_changed()->set_to(v1::JOB_STATE_STARTING);
  moved.mutable_job_state_changed()->set_reason(StartingReason(attempt));
  v1::Event& started = events.emplace_back(EventOf(job, now));
  started.set_attempt(job.next_attempt());
  *started.mutable_attempt_started()->mutable_attempt() = std::move(attempt);
  events.push_back(std::move(moved));
}

// Claims end before others are made; the next pass decides without them.
void AddClaims(const SchedulingState& state, Pass& pass, Now now, std::vector<v1::Event>& events) {
  std::set<uint64_t> started;
  for (const v1::Event& event : events) {
    if (event.has_attempt_started()) started.insert(event.job());
  }
  bool any_ended = false;
  for (const QueuePlace& place : state.queue) {
    if (!place.claims) break;  // they are first
    if (started.contains(place.job)) continue;
    const std::string why = pass.WhyClaimEnds(state.jobs.at(place.job));
    if (why.empty()) continue;
    any_ended = true;
    v1::Event& event = events.emplace_back(EventOf(state.jobs.at(place.job), now));
    event.set_skippable(true);
    event.mutable_claim_ended()->set_reason(why);
  }
  if (any_ended) return;
  const std::optional<Claim> claim = pass.FindClaim();
  if (!claim.has_value()) return;
  v1::Event& event = events.emplace_back(EventOf(state.jobs.at(claim->job), now));
  event.set_skippable(true);
  v1::ClaimMade& made = *event.mutable_claim_made();
  made.mutable_victims()->Assign(claim->victims.begin(), claim->victims.end());
  made.set_reason(claim->reason);
  made.set_period_ms(state.settings.notice_ms);
}

}  // namespace

std::vector<v1::Event> Schedule(SchedulingState& state, Now now) {
  // Expected ends move, so jobs may pass that could not before; and others may be asked once they have run for long enough.
  const int64_t look_again_ms = std::min<int64_t>(30'000, state.settings.reclaim_after_ms);
  std::vector<v1::Event> events;
  const bool is_for_all = now.mono_ms >= state.all_looked_at_mono_ms + Pass::kAllEveryMs;
  Pass pass(state, state.asides, now);
  for (Verdict& verdict : pass.Run(is_for_all ? QueueWalk::kLookedAtMax : Pass::kAtOnce)) {
    const v1::JobRecord& job = state.jobs.at(verdict.job);
    if (verdict.start.has_value()) {
      AddStart(job, *std::move(verdict.start), now, events);
    } else if (const std::string& reason = verdict.blockers.front().text; reason != job.reason()) {
      v1::Event& event = events.emplace_back(EventOf(job, now));
      event.mutable_reason_changed()->set_reason(reason);
    }
  }
  // With what has passed it, the first job may have a better place, which leaves more to others.
  if (pass.starts() > 0 && pass.HoldsPlaces()) state.schedule_needed = true;
  AddClaims(state, pass, now, events);
  if (is_for_all) state.all_looked_at_mono_ms = now.mono_ms;
  state.look_again_mono_ms = pass.TimeMatters() ? now.mono_ms + look_again_ms : 0;
  if (pass.was_cut() && !is_for_all)
    state.look_again_mono_ms = state.all_looked_at_mono_ms + Pass::kAllEveryMs;
  return events;
}

}  // namespace muster::coordinator
