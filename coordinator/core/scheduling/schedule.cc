#include "coordinator/core/scheduling/schedule.h"

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

}  // namespace

std::vector<v1::Event> Schedule(SchedulingState& state, Now now) {
  std::vector<v1::Event> events;
  Pass pass(state, state.asides, now);
  for (Verdict& verdict : pass.Run()) {
    const v1::JobRecord& job = state.jobs.at(verdict.job);
    if (verdict.start.has_value()) {
      AddStart(job, *std::move(verdict.start), now, events);
    } else if (const std::string& reason = verdict.blockers.front().text; reason != job.reason()) {
      v1::Event& event = events.emplace_back(EventOf(job, now));
      event.mutable_reason_changed()->set_reason(reason);
    }
  }
  return events;
}

}  // namespace muster::coordinator
