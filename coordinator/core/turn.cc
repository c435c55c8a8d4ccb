#include "coordinator/core/turn.h"

#include <algorithm>
#include <set>
#include <utility>

#include "coordinator/core/decide/commands.h"
#include "coordinator/core/decide/decide.h"
#include "coordinator/core/outcome/settle.h"
#include "coordinator/core/scheduling/schedule.h"
#include "coordinator/core/state/apply.h"
#include "coordinator/core/state/checkpoint_files.h"
#include "coordinator/core/state/timers.h"
#include "coordinator/core/views/views.h"

namespace muster::coordinator {
namespace {

// For one job in one turn. A job may have more consequences (one for each part of a gang whose nodes were lost,
// one for each checkpoint that its attempt did not complete): the next turn, which is due at once
// (NextDeadlineMonoMs), continues with them.
constexpr int kConsequencesPerTurn = 256;
// Passes of the scheduler; likewise. Each may make the next one due.
constexpr int kPassesPerTurn = 32;
constexpr size_t kFencedPerTurn = 256;  // parts on silent nodes; likewise

// Collects a turn's effects while it changes the state event by event.
class TurnBuilder {
 public:
  TurnBuilder(ClusterState& state, Now now, AfterEvent after_event)
      : state_(state),
        now_(now),
        after_event_(after_event),
        touched_jobs_(std::exchange(state.unsettled, {})) {}

  void Take(const Input& input) {
    Decision decision = Decide(state_, input, now_);
    for (Command& command : decision.commands) turn_.commands.push_back(std::move(command));
    turn_.replies.push_back(std::move(decision.reply));
    for (Denial& denial : decision.denials) turn_.denials.push_back(std::move(denial));
    for (v1::Event& fact : decision.facts) Commit(std::move(fact));
    if (std::holds_alternative<TickInput>(input)) PassTime();
    SettleTouched();
  }

  void PassTime() {
    if (IsDue(LookAgainAtMonoMs(state_), now_)) state_.schedule_needed = true;
    for (const uint64_t job : state_.due_jobs.Until(now_.mono_ms)) touched_jobs_.insert(job);
    TouchDueNodes();
  }

  void TouchDueNodes() {
    for (std::string& node : state_.due_nodes.Until(now_.mono_ms))
      touched_nodes_.insert(std::move(node));
  }

  void TouchEverything() {
    touched_jobs_.insert(state_.active.begin(), state_.active.end());
    for (const auto& [name, node] : state_.nodes) touched_nodes_.insert(name);
  }

  void SettleTouched() {
    do {
      SettleNodes(std::exchange(touched_nodes_, {}));
      SettleJobs();
    } while (!touched_nodes_.empty());
  }

  void SettleJobs() {
    while (!touched_jobs_.empty()) {
      const uint64_t id = touched_jobs_.extract(touched_jobs_.begin()).value();
      if (!state_.unsettled.contains(id)) Settle(id);
      touched_jobs_.erase(id);
      SetJobDue(state_, id);
    }
  }

  void SettleNodes(const std::set<std::string>& names) {
    for (const std::string& name : names) {
      for (v1::Event& event : NodeConsequence(state_, state_.nodes.at(name), now_))
        Commit(std::move(event));
    }
    size_t fenced = 0;
    for (const std::string& name : names) {
      if (fenced < kFencedPerTurn) {
        for (v1::Event& event : FencedParts(state_, state_.nodes.at(name), now_)) {
          Commit(std::move(event));
          ++fenced;
        }
      }
      SetNodeDue(state_, name);
    }
  }

  void Settle(uint64_t id) {
    for (int count = 0; count < kConsequencesPerTurn; ++count) {
      const auto job = state_.jobs.find(id);
      if (job == state_.jobs.end()) return;
      auto event = JobConsequence(state_, job->second, now_);
      if (!event.has_value()) return;
      Commit(*std::move(event));
    }
    state_.unsettled.insert(id);
  }

  void ScheduleOnce() {
    for (int pass = 0; pass < kPassesPerTurn && state_.schedule_needed; ++pass) {
      state_.schedule_needed = false;
      for (v1::Event& event : Schedule(state_, now_)) Commit(std::move(event));
      SettleTouched();
    }
  }

  // Fills in where each submitted job stands after scheduling.
  void CompleteSubmitReplies() {
    for (Reply& reply : turn_.replies) {
      const auto found = state_.jobs.find(reply.submit.job());
      if (found == state_.jobs.end()) continue;
      const v1::JobRecord& job = found->second;
      reply.submit.set_reason(job.reason());
      if (const v1::Attempt* attempt = LiveAttempt(job)) {
        reply.submit.set_layout(DescribeAttempt(*attempt));
      } else if (job.state() == v1::JOB_STATE_QUEUED && !job.held()) {
        reply.submit.set_queue_position(QueuePosition(job));
      }
    }
  }

  Turn Finish() {
    turn_.finished = TakeFinished(state_);
    turn_.changed_jobs.assign(changed_jobs_.begin(), changed_jobs_.end());
    return std::move(turn_);
  }

 private:
  void Commit(v1::Event event) {
    if (event.has_checkpoint_removed()) CollectBlobs(event);
    if (event.has_job_removed()) turn_.removed_jobs.push_back(event.job());
    const bool journaled = IsJournaled(event);
    if (journaled) {
      event.set_seq(state_.next_seq);
      event.set_lived_ms(now_.lived_ms);
    }
    const bool was_alarmed = MostNodesSilent(state_);
    Apply(state_, event, now_);
    if (was_alarmed != MostNodesSilent(state_)) TouchDueNodes();
    if (after_event_ != nullptr) after_event_(state_);
    for (Command& command : CommandsFor(state_, event))
      turn_.commands.push_back(std::move(command));
    // What a trainer's steps promise changes nothing that people see, and nothing that follows from the job. A delivery
    // that is reported after the job's end does not change the job, which must not look removed.
    if (event.job() != 0 && !event.has_job_progress() &&
        !(event.has_notified() && !state_.jobs.contains(event.job()))) {
      changed_jobs_.insert(event.job());
      touched_jobs_.insert(event.job());
    }
    for (const v1::Victim& victim : event.claim_made().victims())
      changed_jobs_.insert(victim.job());
    if (journaled) turn_.events.push_back(std::move(event));
  }

  // Collects the blobs of a checkpoint or of outputs that are removed, unless the job still uses
  // them elsewhere.
  void CollectBlobs(const v1::Event& event) {
    const auto found = state_.jobs.find(event.job());
    if (found == state_.jobs.end()) return;
    std::set<std::string> kept;
    std::set<std::string> gone;
    const v1::JobRecord& job = found->second;
    ForEachSaved(job, [&](const v1::Checkpoint& checkpoint) {
      const bool goes = checkpoint.step() == event.checkpoint_removed().step() &&
                        checkpoint.attempt() == event.checkpoint_removed().attempt();
      for (const v1::CheckpointFile& file :
           FilesOf(state_, event.job(), checkpoint.attempt(), checkpoint.step())) {
        (goes ? gone : kept).insert(file.sha256());
      }
    });
    std::set_difference(gone.begin(), gone.end(), kept.begin(), kept.end(),
                        std::back_inserter(turn_.unused_blobs));
  }

  // Starts at 1; with quotas among those of its project, for the same kind of device. New jobs are at the end, so
  // searching from there is short.
  uint32_t QueuePosition(const v1::JobRecord& job) const {
    const std::set<QueuePlace>& queue =
        HasQuotas(state_.projects)
            ? state_.lines.at({ProjectOf(job), job.spec().shape().device().kind()})
            : state_.queue;
    uint32_t behind = 0;
    for (auto place = queue.rbegin(); place != queue.rend(); ++place, ++behind) {
      if (place->job == job.id()) break;
    }
    return static_cast<uint32_t>(queue.size()) - behind;
  }

  ClusterState& state_;
  const Now now_;
  const AfterEvent after_event_;
  Turn turn_;
  std::set<uint64_t> changed_jobs_;
  std::set<uint64_t> touched_jobs_;
  std::set<std::string> touched_nodes_;
};

}  // namespace

Turn TakeTurn(ClusterState& state, std::span<const Input> inputs, Now now, AfterEvent after_event) {
  TurnBuilder builder(state, now, after_event);
  for (const Input& input : inputs) builder.Take(input);
  builder.ScheduleOnce();
  builder.CompleteSubmitReplies();
  return builder.Finish();
}

Turn ResumeAfterReplay(ClusterState& state, Now now, AfterEvent after_event) {
  // The last run may have ended between two turns of one settlement, in any state of a job.
  for (const auto& [id, job] : state.jobs) state.unsettled.insert(id);
  TurnBuilder builder(state, now, after_event);
  builder.TouchEverything();
  builder.SettleTouched();
  builder.ScheduleOnce();
  return builder.Finish();
}

}  // namespace muster::coordinator
