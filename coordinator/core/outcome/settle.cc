#include "coordinator/core/outcome/settle.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/text/units.h"
#include "coordinator/core/outcome/checkpoint_rules.h"
#include "coordinator/core/outcome/node_events.h"
#include "coordinator/core/outcome/outcome.h"
#include "coordinator/core/state/lifecycle.h"
#include "coordinator/core/state/timers.h"
#include "coordinator/core/views/notice_text.h"
#include "coordinator/core/views/views.h"

namespace muster::coordinator {
namespace {

v1::Event JobEvent(const v1::JobRecord& job, Now now) {
  v1::Event event;
  event.set_job(job.id());
  event.set_at_ms(now.wall_ms);
  if (!job.attempts().empty()) event.set_attempt(job.attempts().rbegin()->number());
  return event;
}

v1::Event Stop(const ClusterState& state, const v1::JobRecord& job, v1::StopCause cause,
               const std::string& reason, Now now) {
  v1::Event event = JobEvent(job, now);
  event.mutable_stop_requested()->set_cause(cause);
  event.mutable_stop_requested()->set_reason(reason);
  event.mutable_stop_requested()->set_grace_ms(GraceMsOf(state, job.spec()));
  return event;
}

v1::Event MoveTo(const v1::JobRecord& job, v1::JobState to, const std::string& reason, Now now) {
  v1::Event event = JobEvent(job, now);
  event.mutable_job_state_changed()->set_from(job.state());
  event.mutable_job_state_changed()->set_to(to);
  event.mutable_job_state_changed()->set_reason(reason);
  return event;
}

bool IsUploadingNewer(const v1::JobRecord& job, const v1::Checkpoint& than) {
  return std::any_of(job.checkpoints().begin(), job.checkpoints().end(),
                     [&](const v1::Checkpoint& each) {
                       return each.attempt() == than.attempt() && each.step() > than.step() &&
                              each.state() == v1::CHECKPOINT_STATE_UPLOADING;
                     });
}

// What a person asks for comes first: it is what that person will look for.
v1::StopCause CauseOfLeaving(const v1::Attempt& attempt) {
  if (!IsAskedByPerson(attempt)) return v1::STOP_CAUSE_PREEMPTED;
  return attempt.notice().asked().hold() ? v1::STOP_CAUSE_HELD : v1::STOP_CAUSE_DRAINED;
}

// It was asked to leave, and has saved since then, or its time for it is over.
std::optional<v1::Event> Leave(const ClusterState& state, const v1::JobRecord& job,
                               const v1::Attempt& attempt, Now now) {
  if (!NoticeStands(state, attempt)) return std::nullopt;
  const v1::Notice& notice = attempt.notice();
  const v1::Checkpoint* latest = LatestCheckpoint(job);
  // One that was on its way before is not the answer if a newer one follows.
  const bool has_saved = latest != nullptr && latest->attempt() == attempt.number() &&
                         latest->step() > state.timers.at(job.id()).saved_before_notice &&
                         !IsUploadingNewer(job, *latest);
  const bool has_run = attempt.running_ms() > 0;  // otherwise there is nothing to save
  if (!has_saved && has_run && !IsDue(NoticeEndsAtMonoMs(state, job, attempt), now))
    return std::nullopt;
  const uint32_t period_ms =
      IsAskedByPerson(attempt) ? notice.asked().period_ms() : notice.period_ms();
  std::string reason = WhyItLeft(notice);
  if (has_saved) {
    absl::StrAppend(&reason, ", after its checkpoint of step ", latest->step());
  } else if (has_run && period_ms > 0) {
    absl::StrAppend(&reason, ", without a checkpoint within ", common::HumanDuration(period_ms));
  }
  return Stop(state, job, CauseOfLeaving(attempt), reason, now);
}

// Why a live attempt must be stopped, if nothing is stopping it yet.
std::optional<v1::Event> ReasonToStop(const ClusterState& state, const v1::JobRecord& job,
                                      const v1::Attempt& attempt, Now now) {
  if (attempt.has_culprit()) {
    return Stop(state, job, v1::STOP_CAUSE_RANK_FAILED, DescribeExit(attempt.culprit()), now);
  }
  const bool has_failed = CountsOf(state, job).failed > 0;
  for (int place = 0; has_failed && place < attempt.parts_size(); ++place) {
    const v1::NodePart& part = attempt.parts(place);
    if (part.ended() && !part.failure().empty()) {
      return Stop(state, job, part.failure_cause(), part.failure(), now);
    }
    if (part.ended() && static_cast<uint32_t>(part.exits_size()) < part.local_world_size()) {
      return Stop(state, job, v1::STOP_CAUSE_SUPERVISOR_LOST,
                  absl::StrCat(part.node(), " has lost track of some of its ranks"), now);
    }
  }
  if (IsDue(TimeLimitAtMonoMs(state, job, attempt), now)) {
    return Stop(state, job, v1::STOP_CAUSE_TIME_LIMIT,
                absl::StrCat("its time limit of ",
                             common::HumanDuration(job.spec().max_duration_ms()), " expired"),
                now);
  }
  if (auto leaves = Leave(state, job, attempt, now)) return leaves;
  if (IsDue(LaunchLateAtMonoMs(state, job, attempt), now)) {
    const v1::NodePart& late = *UnlaunchedPart(attempt);
    const std::string within = common::HumanDuration(state.settings.start_timeout_ms);
    const std::string& doing = late.preparation().doing();
    return Stop(state, job, v1::STOP_CAUSE_START_TIMEOUT,
                doing.empty()
                    ? absl::StrCat(late.node(), " did not launch its ranks within ", within)
                    : absl::StrCat(late.node(), " made no progress within ", within, ": ", doing),
                now);
  }
  return std::nullopt;
}

std::optional<v1::Event> AttemptConsequence(const ClusterState& state, const v1::JobRecord& job,
                                            const v1::Attempt& attempt, Now now) {
  if (!attempt.stopping()) {
    if (job.state() == v1::JOB_STATE_STARTING && AreLaunched(CountsOf(state, job))) {
      return MoveTo(job, v1::JOB_STATE_RUNNING, job.reason(), now);
    }
    if (auto stop = ReasonToStop(state, job, attempt, now)) return stop;
  }
  if (attempt.stopping() && job.state() != v1::JOB_STATE_STOPPING) {
    return MoveTo(job, v1::JOB_STATE_STOPPING, attempt.reason(), now);
  }
  if (AreOver(CountsOf(state, job))) {
    v1::Event event = JobEvent(job, now);
    *event.mutable_attempt_ended() = JudgeAttempt(attempt);
    event.mutable_attempt_ended()->set_ran_ms(RunningMs(state, job, now));
    return event;
  }
  return std::nullopt;
}

// So that it is known which coordinators have parts of its output.
std::optional<v1::Event> TakeOver(const std::string& head, const v1::JobRecord& job,
                                  const v1::Attempt& attempt, Now now) {
  if (head.empty() || (!attempt.heads().empty() && *attempt.heads().rbegin() == head))
    return std::nullopt;
  v1::Event event = JobEvent(job, now);
  event.set_attempt(attempt.number());
  event.set_skippable(true);
  event.mutable_attempt_taken_over()->set_head(head);
  return event;
}

// The job has no live attempt.
std::optional<v1::Event> IdleConsequence(const ClusterState& state, const v1::JobRecord& job,
                                         Now now) {
  const bool waits = job.state() == v1::JOB_STATE_QUEUED || job.state() == v1::JOB_STATE_RESTARTING;
  if (waits && job.cancel_requested()) {
    v1::Event event = MoveTo(job, v1::JOB_STATE_CANCELLED, job.reason(), now);
    event.mutable_job_state_changed()->set_cause(job.cause());
    event.mutable_job_state_changed()->set_exit_code(130);
    return event;
  }
  if (job.state() == v1::JOB_STATE_RESTARTING) {
    if (!IsDue(RestartAtMonoMs(state, job), now)) return std::nullopt;
    v1::Event event =
        MoveTo(job, v1::JOB_STATE_QUEUED, "the pause before its restart is over", now);
    event.mutable_job_state_changed()->set_quick_failures(job.quick_failures());
    event.mutable_job_state_changed()->set_quick_failure(job.quick_failure());
    return event;
  }
  if (job.state() == v1::JOB_STATE_QUEUED || IsFinal(job.state())) return std::nullopt;
  // Its attempt has ended. If the table has no direct transition to the outcome, go through
  // STOPPING.
  v1::JobStateChanged change = JudgeJob(state, job);
  if (!IsLegalEdge(job.state(), change.to())) {
    return MoveTo(job, v1::JOB_STATE_STOPPING, job.attempts().rbegin()->reason(), now);
  }
  v1::Event event = JobEvent(job, now);
  *event.mutable_job_state_changed() = std::move(change);
  return event;
}

}  // namespace

std::optional<v1::Event> JobConsequence(const ClusterState& state, const v1::JobRecord& job,
                                        Now now) {
  if (IsFinal(job.state())) return std::nullopt;
  if (auto event = CheckpointConsequence(state, job, now)) return event;
  if (const v1::Attempt* attempt = LiveAttempt(job)) {
    if (auto taken_over = TakeOver(state.settings.head, job, *attempt, now)) return taken_over;
    return AttemptConsequence(state, job, *attempt, now);
  }
  return IdleConsequence(state, job, now);
}

void AddSilence(const ClusterState& state, const std::string& node, v1::NodeState to,
                const std::string& reason, Now now, std::vector<v1::Event>& facts) {
  ForEachLivePart(state, node, [&](const auto& job, const auto& attempt, const auto&) {
    v1::Event& event = facts.emplace_back(PartEvent(job, attempt, node, now));
    event.set_skippable(true);
    event.mutable_part_silence()->set_state(to);
    event.mutable_part_silence()->set_reason(reason);
  });
}

std::vector<v1::Event> NodeConsequence(const ClusterState& state, const Node& node, Now now) {
  if (!IsDue(SilentAtMonoMs(state, node), now)) return {};
  const v1::NodeState to =
      node.record.state() == v1::NODE_STATE_ALIVE ? v1::NODE_STATE_SUSPECT : v1::NODE_STATE_LOST;
  const std::string& name = node.record.facts().name();
  const std::string reason = absl::StrCat(
      "not heard from for ", common::HumanDuration(now.mono_ms - node.last_contact_mono_ms));
  std::vector<v1::Event> facts = {NodeChange(name, to, reason, now)};
  AddSilence(state, name, to, reason, now, facts);
  return facts;
}

std::vector<v1::Event> FencedParts(const ClusterState& state, const Node& node, Now now) {
  std::vector<v1::Event> facts;
  const std::string& name = node.record.facts().name();
  ForEachLivePart(state, name, [&](const auto& job, const auto& attempt, const auto& part) {
    if (!IsDue(FencedAtMonoMs(state, job, part), now)) return;
    const int64_t silent_ms = now.mono_ms - node.last_contact_mono_ms;
    facts.push_back(
        PartEnded(job, attempt, name, "fenced by time",
                  absl::StrCat(name, " was not heard from for ", common::HumanDuration(silent_ms)),
                  v1::STOP_CAUSE_NODE_LOST, now));
  });
  return facts;
}

}  // namespace muster::coordinator
