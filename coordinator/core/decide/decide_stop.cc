// What a person asks of jobs: to save and stop, to leave a node, to wait, to continue.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job/rules.h"
#include "common/problem.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "coordinator/core/decide/decide.h"
#include "coordinator/core/outcome/checkpoint_rules.h"
#include "coordinator/core/state/timers.h"

namespace muster::coordinator {

absl::Status CheckNotice(std::optional<uint32_t> notice_ms) {
  if (notice_ms.value_or(0) <= job::kNoticeMs.most) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kInvalidArgument,
      {.code = "JC1004",
       .what = absl::StrCat("the time to save is 0 to ", common::HumanDuration(job::kNoticeMs.most),
                            ", not ", *notice_ms, " ms"),
       .fix = "give a shorter --notice"});
}

namespace {

// Asked once more, of what is asked for in all the earliest end counts, from when it was asked first. It is
// worked out here: a replay knows no times.
v1::Event NoticeOf(const ClusterState& state, const v1::JobRecord& job, const v1::Attempt& attempt,
                   v1::Asked asked, Now now) {
  v1::Event event = LiveJobEvent(job, now);
  event.set_skippable(true);
  const v1::Asked& before = attempt.notice().asked();
  asked.set_given_ms(now.wall_ms);
  if (IsAskedByPerson(attempt)) {
    const int64_t gone_ms = now.mono_ms - state.timers.at(job.id()).asked_mono_ms;
    const int64_t end_ms = std::max<int64_t>(0, gone_ms) + asked.period_ms();
    asked.set_period_ms(static_cast<uint32_t>(std::min<int64_t>(end_ms, before.period_ms())));
    asked.set_given_ms(before.given_ms());
    if (before.hold() && !asked.hold()) asked.set_by(before.by());
    asked.set_hold(asked.hold() || before.hold());
    if (asked.node().empty()) {
      asked.set_node(before.node());
      asked.set_why(before.why());
    }
  }
  *event.mutable_notice_given()->mutable_asked() = std::move(asked);
  return event;
}

// Than a person asked for before.
bool EndsSooner(const ClusterState& state, const v1::JobRecord& job, const v1::Attempt& attempt,
                uint32_t period_ms, Now now) {
  const std::optional<int64_t> ends = AskedEndsAtMonoMs(state, job, attempt);
  return !ends.has_value() || now.mono_ms + period_ms < *ends;
}

std::string HowItLeaves(const v1::Attempt& attempt, uint32_t period_ms) {
  if (attempt.running_ms() == 0 || period_ms == 0) return "is being stopped";
  return absl::StrCat("is asked to save, and is stopped once it has, in at most ",
                      common::HumanDuration(period_ms));
}

v1::Event HeldEvent(const v1::JobRecord& job, const std::string& by, Now now) {
  const std::string reason =
      absl::StrCat("held: stopped by ", by, "; jobctl release ", job.name(),
                   job.attempts().empty() ? " lets it start" : " continues it");
  v1::Event event = LiveJobEvent(job, now);
  if (job.state() == v1::JOB_STATE_QUEUED) {
    event.set_skippable(true);
    event.mutable_job_held()->set_by(by);
    event.mutable_job_held()->set_reason(reason);
    return event;
  }
  v1::JobStateChanged& change = *event.mutable_job_state_changed();
  change.set_from(job.state());
  change.set_to(v1::JOB_STATE_QUEUED);
  change.set_reason(reason);
  change.set_held(true);
  change.set_quick_failures(job.quick_failures());
  change.set_quick_failure(job.quick_failure());
  return event;
}

// The facts, and what the caller is told.
std::string StopLive(const ClusterState& state, const v1::JobRecord& job,
                     const v1::Attempt& attempt, uint32_t period_ms, const std::string& by, Now now,
                     std::vector<v1::Event>& facts) {
  const bool again = attempt.notice().asked().hold();
  if (again && (attempt.stopping() || !EndsSooner(state, job, attempt, period_ms, now)))
    return attempt.stopping() ? "is being stopped already" : "is asked to save already";
  v1::Asked asked;
  asked.set_hold(true);
  asked.set_by(by);
  asked.set_period_ms(period_ms);
  facts.push_back(NoticeOf(state, job, attempt, std::move(asked), now));
  return absl::StrCat(attempt.stopping() ? "is being stopped" : HowItLeaves(attempt, period_ms),
                      "; then it is held");
}

}  // namespace

Decision DecideOn(const ClusterState& state, const StopInput& input, Now now) {
  Decision decision;
  decision.reply.status = CheckNotice(input.notice_ms);
  if (!decision.reply.status.ok()) return decision;
  const uint32_t period_ms = input.notice_ms.value_or(state.settings.notice_ms);
  const std::string& by = input.caller.principal;
  std::set<uint64_t> seen;
  for (const uint64_t id : input.jobs) {
    const v1::JobRecord* job = FindJob(state, id);
    if (job == nullptr) {
      decision.reply.results.push_back(NotLive(id));
      continue;
    }
    v1::BulkResult result = ResultFor(id, job);
    if (!seen.insert(id).second) {
      result.set_message("is named twice");
    } else if (job->cancel_requested()) {
      result.set_message("is being cancelled");
    } else if (const v1::Attempt* attempt = LiveAttempt(*job)) {
      result.set_message(StopLive(state, *job, *attempt, period_ms, by, now, decision.facts));
    } else if (job->held()) {
      result.set_message("is held already");
    } else if (job->state() == v1::JOB_STATE_QUEUED || job->state() == v1::JOB_STATE_RESTARTING) {
      decision.facts.push_back(HeldEvent(*job, by, now));
      result.set_message("is held");
    }
    decision.reply.results.push_back(std::move(result));
  }
  return decision;
}

size_t AddEvictions(const ClusterState& state, const DrainInput& input, Now now,
                    Decision& decision) {
  const uint32_t period_ms = input.notice_ms.value_or(state.settings.notice_ms);
  size_t leaving = 0;
  ForEachLivePart(state, input.node, [&](const auto& job, const auto& attempt, const auto&) {
    ++leaving;
    if (attempt.stopping()) return;
    const bool again = attempt.notice().asked().node() == input.node;
    if (again && !EndsSooner(state, job, attempt, period_ms, now)) return;
    v1::Asked asked;
    asked.set_node(input.node);
    asked.set_by(input.caller.principal);
    asked.set_why(input.reason);
    asked.set_period_ms(period_ms);
    decision.facts.push_back(NoticeOf(state, job, attempt, std::move(asked), now));
  });
  return leaving;
}

void AddEvictionsTakenBack(const ClusterState& state, const DrainInput& input, Now now,
                           Decision& decision) {
  ForEachLivePart(state, input.node, [&](const auto& job, const auto& attempt, const auto&) {
    if (attempt.stopping() || attempt.notice().asked().node() != input.node) return;
    v1::Event& event = decision.facts.emplace_back(LiveJobEvent(job, now));
    event.set_skippable(true);
    event.mutable_notice_taken_back()->set_by(input.caller.principal);
    event.mutable_notice_taken_back()->set_node(input.node);
  });
}

namespace {

// Empty: there is nothing to release it from.
std::optional<v1::Event> ReleaseOf(const ClusterState& state, const v1::JobRecord& job,
                                   const ReleaseInput& input, Now now) {
  const v1::Attempt* attempt = LiveAttempt(job);
  if (attempt != nullptr && attempt->notice().asked().hold()) {
    v1::Event event = LiveJobEvent(job, now);
    event.set_skippable(true);
    event.mutable_notice_taken_back()->set_by(input.caller.principal);
    event.mutable_notice_taken_back()->set_hold(true);
    return event;
  }
  const std::string& head = state.settings.head;
  const bool waits = input.from_scratch && attempt == nullptr;
  const v1::Checkpoint* absent = waits ? AbsentCheckpoint(job, head) : nullptr;
  if (!job.held() && absent == nullptr) return std::nullopt;
  v1::Event event = LiveJobEvent(job, now);
  v1::JobReleased& released = *event.mutable_job_released();
  released.set_by(input.caller.principal);
  if (absent != nullptr) {
    released.set_without_step(absent->step());
    released.set_held_by(OtherHeads(*absent, head));
  }
  return event;
}

}  // namespace

Decision DecideOn(const ClusterState& state, const ReleaseInput& input, Now now) {
  Decision decision;
  for (const uint64_t id : input.jobs) {
    const v1::JobRecord* job = FindJob(state, id);
    if (job == nullptr) {
      decision.reply.results.push_back(NotLive(id));
      continue;
    }
    v1::BulkResult result = ResultFor(id, job);
    if (std::optional<v1::Event> event = ReleaseOf(state, *job, input, now); event.has_value()) {
      if (event->has_notice_taken_back()) result.set_message("is not stopped, or not held then");
      decision.facts.push_back(*std::move(event));
    } else {
      result.set_message(input.from_scratch
                             ? "does not wait for a checkpoint that another coordinator has"
                             : "is not held");
    }
    decision.reply.results.push_back(std::move(result));
  }
  return decision;
}

}  // namespace muster::coordinator
