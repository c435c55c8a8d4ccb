#include "coordinator/core/state/apply.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "coordinator/core/state/blockers.h"
#include "coordinator/core/state/checkpoint_files.h"
#include "coordinator/core/state/holdings.h"
#include "coordinator/core/state/lifecycle.h"
#include "coordinator/core/state/order.h"
#include "coordinator/core/state/owner.h"
#include "coordinator/core/state/timers.h"

namespace muster::coordinator {
namespace {

v1::JobRecord& JobOf(ClusterState& state, const v1::Event& event) {
  CHECK(state.jobs.contains(event.job()));  // our own decision; from a disk: ReplayEvent refuses it
  return state.jobs.Edit(event.job());
}

v1::Attempt& NewestAttempt(v1::JobRecord& job) {
  CHECK(!job.attempts().empty());  // our own decision; from a disk: ReplayEvent refuses it
  return *job.mutable_attempts()->rbegin();
}

v1::NodePart& PartOf(ClusterState& state, v1::JobRecord& job, const v1::Event& event) {
  v1::Attempt& attempt = NewestAttempt(job);
  const int place = state.live_parts.Find(job.id(), event.node());
  if (place >= 0) return *attempt.mutable_parts(place);
  for (v1::NodePart& part : *attempt.mutable_parts()) {
    if (part.node() == event.node()) return part;
  }
  // Decisions name parts that they looked up; ReplayEvent refuses such an event from a disk.
  CHECK(false && "an event names a node that has no part in the attempt");
}

// Keeps what is counted of the attempt's parts.
template <typename Change>
void ChangePart(ClusterState& state, v1::JobRecord& job, v1::NodePart& part, Change change) {
  PartCounts* counts = state.live_parts.Counts(job.id());
  const bool had_ended = part.ended();
  if (counts != nullptr) counts->Add(part, -1);
  change(part);
  if (counts != nullptr) counts->Add(part);
  if (counts != nullptr && part.ended() && !had_ended) Occupy(state, part, false);
}
template <typename Change>
void ChangePart(ClusterState& state, const v1::Event& event, Change change) {
  v1::JobRecord& job = JobOf(state, event);
  ChangePart(state, job, PartOf(state, job, event), change);
}

// When something happened, on this run's clock: after a restart a pause resumes where it was. Facts
// recorded before lived time existed count as new.
int64_t MonoOf(int64_t lived_ms, Now now) {
  return lived_ms > 0 ? now.mono_ms - std::max<int64_t>(now.lived_ms - lived_ms, 0) : now.mono_ms;
}

// Its newest attempt begins or ends. An event from a disk may have any of both where none belongs.
void IndexParts(ClusterState& state, const v1::JobRecord& job) {
  if (job.attempts().empty()) return;
  const v1::Attempt& newest = *job.attempts().rbegin();
  if (state.live_parts.Counts(job.id()) != nullptr) {
    Occupy(state, newest, false);
    state.live_parts.Remove(job.id(), newest);
  }
  if (LiveAttempt(job) == nullptr) return;
  state.live_parts.Add(job.id(), newest);
  Occupy(state, newest, true);
}

// Moves the job into the index for its state; a held one is in none.
void Index(ClusterState& state, const v1::JobRecord& job) {
  Dequeue(state, job);
  state.told.erase(job.id());
  state.active.erase(job.id());
  if (job.state() != v1::JOB_STATE_QUEUED || job.held()) {
    state.asides.jobs.erase(job.id());
    state.asides.others.erase(job.id());
  }
  if (job.state() == v1::JOB_STATE_QUEUED) {
    if (!job.held()) Enqueue(state, job);
    if (!job.held() && IsFoundByPass(job.reason())) state.told.insert(job.id());
  } else if (!IsFinal(job.state())) {
    state.active.insert(job.id());
  }
}

void ApplySubmitted(ClusterState& state, const v1::Event& event, Now now) {
  const v1::JobRecord& record = event.job_submitted().record();
  // Each number is given out once; ReplayEvent checks events from a disk.
  CHECK(!state.jobs.contains(record.id()));
  v1::JobRecord& job = state.jobs.Add(record.id());
  job = record;
  job.set_state_lived_ms(event.lived_ms());
  DetachFiles(state, job);
  Weigh(state, job);
  IndexParts(state, job);
  state.timers[record.id()].state_since_mono_ms = MonoOf(event.lived_ms(), now);
  state.next_job_id = std::max(state.next_job_id, record.id() + 1);
  if (!record.idempotency_key().empty()) {
    RestoreKey(state, OwnerKey(record), record.idempotency_key(), record.id(), record.spec_hash());
  }
  Index(state, job);
  state.schedule_needed = true;
}

// What was asked for the job, and has not ended yet, is not asked any more.
void TakeBackNotices(ClusterState& state, uint64_t by) {
  for (const uint64_t id : state.active) {
    const v1::Attempt* attempt = LiveAttempt(state.jobs.at(id));
    if (attempt == nullptr || !attempt->has_notice() || attempt->notice().by() != by ||
        attempt->stopping()) {
      continue;
    }
    v1::JobRecord& job = state.jobs.Edit(id);
    NewestAttempt(job).mutable_notice()->set_by(0);
    if (!NoticeStands(state, *attempt)) NewestAttempt(job).clear_notice();
    Weigh(state, job);
  }
}

void SetClaims(ClusterState& state, v1::JobRecord& job, bool claims) {
  const bool waits = state.queue.contains(PlaceOf(job));
  if (waits) Dequeue(state, job);
  job.set_claims(claims);
  if (waits) Enqueue(state, job);
  state.schedule_needed = true;
}

// It has its devices, or does not wait for them any more.
void EndClaim(ClusterState& state, v1::JobRecord& job) {
  if (!job.claims()) return;
  TakeBackNotices(state, job.id());
  SetClaims(state, job, false);
}

void ApplyAttemptStarted(ClusterState& state, const v1::Event& event, Now now) {
  v1::JobRecord& job = JobOf(state, event);
  // Otherwise two gangs would run as one job. A pass starts only queued jobs; ReplayEvent refuses such an event
  // from a disk.
  CHECK(LiveAttempt(job) == nullptr && !event.attempt_started().attempt().parts().empty());
  *job.add_attempts() = event.attempt_started().attempt();
  IndexParts(state, job);
  NewestAttempt(job).set_started_lived_ms(event.lived_ms());
  state.usage.Edit().AttemptStarted(state.projects, job, NewestAttempt(job), event.at_ms());
  EndClaim(state, job);
  Dequeue(state, job);  // its place is that of one that gave way
  job.set_gave_way(false);
  Enqueue(state, job);
  job.set_next_attempt(event.attempt_started().attempt().number() + 1);
  job.set_resolved_device_kind(NewestAttempt(job).parts(0).device_kind());
  while (job.attempts_size() > common::kAttemptsKept) {
    job.mutable_attempts()->DeleteSubrange(0, 1);
    job.set_dropped_attempts(job.dropped_attempts() + 1);
  }
  JobTimers& timers = state.timers[job.id()];
  timers.attempt_since_mono_ms = MonoOf(event.lived_ms(), now);
  timers.prepared_mono_ms = 0;
  timers.progress = {};
}

void ApplyMasterPortHeld(ClusterState& state, const v1::Event& event) {
  const v1::MasterPortHeld& held = event.master_port_held();
  v1::JobRecord& job = JobOf(state, event);
  v1::Attempt& attempt = NewestAttempt(job);
  attempt.set_master_port(held.port());
  attempt.set_rendezvous_secret(held.rendezvous_secret());
  CHECK(!attempt.parts().empty());  // our own decision; from a disk: ReplayEvent refuses it
  ChangePart(state, job, *attempt.mutable_parts(0), [&](v1::NodePart& part) {
    part.set_ready(held.port() != 0);
    part.clear_preparation();
    if (held.has_preparation()) *part.mutable_preparation() = held.preparation();
  });
}

void ApplyPartReady(ClusterState& state, const v1::Event& event) {
  ChangePart(state, event, [&](v1::NodePart& part) {
    part.set_ready(true);
    part.clear_preparation();
    if (event.part_ready().has_preparation())
      *part.mutable_preparation() = event.part_ready().preparation();
  });
}

void ApplyPartPreparing(ClusterState& state, const v1::Event& event, Now now) {
  v1::NodePart& part = PartOf(state, JobOf(state, event), event);
  part.mutable_preparation()->set_doing(event.part_preparing().doing());
  state.timers[event.job()].prepared_mono_ms = now.mono_ms;
}

// What a node is doing is not journaled.
void ForgetDoing(v1::NodePart& part) {
  if (!part.preparation().doing().empty()) part.clear_preparation();
}

void ApplyRankExited(ClusterState& state, const v1::Event& event) {
  v1::JobRecord& job = JobOf(state, event);
  const v1::RankExited& exited = event.rank_exited();
  ChangePart(state, event, [&](v1::NodePart& part) { *part.add_exits() = exited.exit(); });
  if (IsFailure(exited.exit())) {
    NewestAttempt(job).set_failed_ranks(NewestAttempt(job).failed_ranks() + 1);
  }
  if (exited.first_failure()) *NewestAttempt(job).mutable_culprit() = exited.exit();
}

void ApplyCheckpointFailed(v1::NodePart& part, const v1::CheckpointFailed& failed) {
  part.set_checkpoint_error(failed.why());
  part.set_checkpoint_errors(part.checkpoint_errors() + 1);
}

// A later exit may be caused by this signal.
void KeepSignal(v1::JobRecord& job, int32_t signal) {
  // Older journals may name any number: keep only signals that a rank can die of.
  if (LiveAttempt(job) == nullptr || !IsSignal(signal)) return;
  auto& sent = *NewestAttempt(job).mutable_signals_sent();
  if (std::find(sent.begin(), sent.end(), signal) == sent.end()) sent.Add(signal);
}

void ApplyStopRequested(ClusterState& state, const v1::Event& event) {
  v1::JobRecord& job = JobOf(state, event);
  const v1::StopRequested& stop = event.stop_requested();
  if (stop.cancel_job()) {
    job.set_cancel_requested(true);
    job.set_cause(stop.cause());
  }
  if (LiveAttempt(job) == nullptr) {
    job.set_reason(stop.reason());
    Index(state, job);
    return;
  }
  state.schedule_needed = true;  // its end is nearer
  v1::Attempt& attempt = NewestAttempt(job);
  attempt.set_stopping(true);
  attempt.set_stopping_ms(event.at_ms());
  attempt.set_cause(stop.cause());
  attempt.set_reason(stop.reason());
  attempt.set_stop_grace_ms(stop.grace_ms());
}

void ApplyPartEnded(ClusterState& state, const v1::Event& event) {
  v1::JobRecord& job = JobOf(state, event);
  v1::NodePart& ended = PartOf(state, job, event);
  state.usage.Edit().PartEnded(state.projects, job, ended, event.at_ms());
  ChangePart(state, job, ended, [&](v1::NodePart& part) {
    part.set_ended(true);
    part.set_ended_ms(event.at_ms());
    part.set_how_ended(event.part_ended().how());
    part.set_failure(event.part_ended().failure());
    part.set_failure_cause(event.part_ended().cause());
    ForgetDoing(part);
    if (event.part_ended().has_preparation())
      *part.mutable_preparation() = event.part_ended().preparation();
  });
  state.schedule_needed = true;
}

// 0: never.
int64_t SavedMsOf(const v1::JobRecord& job, uint32_t attempt) {
  int64_t saved_ms = 0;
  for (const v1::Checkpoint& checkpoint : job.checkpoints()) {
    if (checkpoint.attempt() == attempt && checkpoint.state() == v1::CHECKPOINT_STATE_COMMITTED)
      saved_ms = std::max(saved_ms, checkpoint.committed_ms());
  }
  return saved_ms;
}

void ApplyAttemptEnded(ClusterState& state, const v1::Event& event) {
  v1::JobRecord& job = JobOf(state, event);
  v1::Attempt& attempt = NewestAttempt(job);
  attempt.set_ended_ms(event.at_ms());
  IndexParts(state, job);
  attempt.clear_rendezvous_secret();
  attempt.set_cause(event.attempt_ended().cause());
  attempt.set_reason(event.attempt_ended().reason());
  attempt.set_ran_ms(event.attempt_ended().ran_ms());
  if (event.attempt_ended().has_culprit()) {
    *attempt.mutable_culprit() = event.attempt_ended().culprit();
  }
  job.set_ran_ms(job.ran_ms() + event.attempt_ended().ran_ms());
  state.usage.Edit().AttemptEnded(job, attempt, SavedMsOf(job, attempt.number()));
  Slim(state.settings, job);
  Weigh(state, job);
}

void ApplyJobStateChanged(ClusterState& state, const v1::Event& event, Now now) {
  v1::JobRecord& job = JobOf(state, event);
  const v1::JobStateChanged& change = event.job_state_changed();
  // Rules take `from` from the job and each edge from the table; ReplayEvent refuses others from a disk.
  CHECK(change.from() == job.state() && IsLegalEdge(change.from(), change.to()));
  if (change.to() != v1::JOB_STATE_QUEUED) EndClaim(state, job);
  job.set_state(change.to());
  job.set_state_ms(event.at_ms());
  job.set_reason(change.reason());
  job.set_backoff_ms(change.backoff_ms());
  if (change.used_restart()) {
    job.set_failures(job.failures() + 1);
    job.set_quick_failures(change.quick_failures());
    job.set_quick_failure(change.quick_failure());
  }
  if (change.used_node_loss()) job.set_node_losses(job.node_losses() + 1);
  if (change.used_supervisor_loss()) job.set_supervisor_losses(job.supervisor_losses() + 1);
  if (change.used_restart() || change.used_node_loss() || change.used_supervisor_loss()) {
    job.set_node_losses_in_a_row(change.node_losses_in_a_row());
  }
  job.set_held(change.held());
  if (change.held()) job.set_attached(false);  // it waits for a person, not for its client
  if (change.to() == v1::JOB_STATE_QUEUED && !job.attempts().empty()) {
    const v1::StopCause cause = NewestAttempt(job).cause();
    job.set_gave_way(cause == v1::STOP_CAUSE_PREEMPTED || cause == v1::STOP_CAUSE_DRAINED);
  }
  job.set_state_lived_ms(event.lived_ms());
  JobTimers& timers = state.timers[job.id()];
  timers.state_since_mono_ms = MonoOf(event.lived_ms(), now);
  if (change.to() == v1::JOB_STATE_RUNNING) {
    NewestAttempt(job).set_running_ms(event.at_ms());
    NewestAttempt(job).set_running_lived_ms(event.lived_ms());
    timers.running_since_mono_ms = timers.state_since_mono_ms;
    if (job.first_running_ms() == 0) job.set_first_running_ms(event.at_ms());
  }
  if (IsFinal(change.to())) {
    job.set_finished_ms(event.at_ms());
    job.set_cause(change.cause());
    job.set_exit_code(change.exit_code());
    if (change.to() == v1::JOB_STATE_SUCCEEDED) state.earlier_runs.Learn(job);
    state.finished.push_back(job.id());
  }
  Index(state, job);
  // The pass that started it knows; the end of its ranks is PartEnded.
  const bool was_queued =
      change.from() == v1::JOB_STATE_QUEUED && change.to() != v1::JOB_STATE_STARTING;
  if (was_queued || change.to() == v1::JOB_STATE_QUEUED) state.schedule_needed = true;
}

void ApplyReleased(ClusterState& state, const v1::Event& event) {
  v1::JobRecord& job = JobOf(state, event);
  job.set_held(false);
  job.set_node_losses_in_a_row(0);
  job.set_reason(absl::StrCat("released by ", event.job_released().by()));
  if (event.job_released().has_without_step()) {
    job.set_fresh_from(job.next_attempt());
    state.asides.jobs.erase(job.id());  // what it was set aside for is no more
  }
  Index(state, job);
  state.schedule_needed = true;
}

void ApplyPartAge(ClusterState& state, const v1::Event& event, Now now) {
  if (NewestAttempt(JobOf(state, event)).running_ms() == 0) return;
  int64_t& since = state.timers[event.job()].running_since_mono_ms;
  since = std::min(since, now.mono_ms - event.part_age().ran_ms());
}

void ApplyJobSet(ClusterState& state, const v1::Event& event) {
  v1::JobRecord& job = JobOf(state, event);
  const v1::JobSet& set = event.job_set();
  Dequeue(state, job);
  if (set.has_priority()) job.mutable_spec()->set_priority(set.priority());
  if (set.has_estimate_ms()) job.mutable_spec()->set_estimate_ms(set.estimate_ms());
  if (set.has_urgent()) job.set_urgent(set.urgent());
  if (set.has_project()) {
    EndClaim(state, job);  // it was for the other project's quota
    job.mutable_spec()->set_project(set.project());
  }
  Index(state, job);
  state.schedule_needed = true;
}

// -1: none.
int64_t SavedStepOf(const v1::JobRecord& job, uint32_t attempt) {
  const v1::Checkpoint* latest = LatestCheckpoint(job);
  return latest == nullptr || latest->attempt() != attempt ? -1 : latest->step();
}

void ApplyClaimMade(ClusterState& state, const v1::Event& event, Now now) {
  const v1::ClaimMade& claim = event.claim_made();
  for (const v1::Victim& victim : claim.victims()) {
    if (!state.jobs.contains(victim.job())) continue;
    v1::JobRecord& job = state.jobs.Edit(victim.job());
    if (job.attempts().empty() || NewestAttempt(job).number() != victim.attempt()) continue;
    v1::Notice& notice = *NewestAttempt(job).mutable_notice();
    notice.set_by(event.job());
    notice.set_reason(claim.reason());
    notice.set_given_ms(event.at_ms());
    notice.set_period_ms(claim.period_ms());
    KeepSignal(job, job.spec().notice_signal());
    JobTimers& timers = state.timers[victim.job()];
    timers.noticed_mono_ms = now.mono_ms;
    if (!IsAskedByPerson(NewestAttempt(job)))
      timers.saved_before_notice = SavedStepOf(job, victim.attempt());
    Weigh(state, job);
  }
  SetClaims(state, JobOf(state, event), true);
}

// The event has all that persons ask of the attempt now.
void ApplyNoticeGiven(ClusterState& state, const v1::Event& event, Now now) {
  v1::JobRecord& job = JobOf(state, event);
  v1::Attempt& attempt = NewestAttempt(job);
  JobTimers& timers = state.timers[job.id()];
  if (!NoticeStands(state, attempt))
    timers.saved_before_notice = SavedStepOf(job, attempt.number());
  if (!IsAskedByPerson(attempt)) timers.asked_mono_ms = now.mono_ms;
  const v1::Asked& asked = event.notice_given().asked();
  *attempt.mutable_notice()->mutable_asked() = asked;
  if (asked.hold()) job.set_attached(false);
  if (asked.period_ms() > 0 && !attempt.stopping()) KeepSignal(job, job.spec().notice_signal());
  Weigh(state, job);
}

void ApplyNoticeTakenBack(ClusterState& state, const v1::Event& event) {
  v1::JobRecord& job = JobOf(state, event);
  v1::Attempt& attempt = NewestAttempt(job);
  if (!attempt.has_notice()) return;
  v1::Asked& asked = *attempt.mutable_notice()->mutable_asked();
  if (event.notice_taken_back().hold()) asked.clear_hold();
  if (event.notice_taken_back().node() == asked.node()) asked.clear_node();
  if (!IsAskedByPerson(attempt)) attempt.mutable_notice()->clear_asked();
  if (!NoticeStands(state, attempt)) attempt.clear_notice();
  Weigh(state, job);
}

void ApplyJobHeld(ClusterState& state, const v1::Event& event) {
  v1::JobRecord& job = JobOf(state, event);
  EndClaim(state, job);
  job.set_held(true);
  job.set_attached(false);
  job.set_reason(event.job_held().reason());
  Index(state, job);
  state.schedule_needed = true;
}

void ApplyProjectsSet(ClusterState& state, const v1::Event& event) {
  state.usage.Edit().SharesChange(state.projects, event.at_ms());
  state.projects = SharesOf(event.projects_set());
  state.asides = {};  // some are about limits
  state.schedule_needed = true;
}

// Reports of an older attempt have been refused.
void ApplyProgress(ClusterState& state, const v1::Event& event, Now now) {
  state.timers[event.job()].progress = {
      .attempt = event.attempt(), .ends_mono_ms = now.mono_ms + event.job_progress().left_ms()};
}

// Each head once: the list stays as short as there are heads.
void ApplyTakenOver(v1::Attempt& attempt, const std::string& head) {
  auto& heads = *attempt.mutable_heads();
  heads.erase(std::remove(heads.begin(), heads.end(), head), heads.end());
  *heads.Add() = head;
}

void ApplyCheckpointPart(ClusterState& state, const v1::Event& event) {
  v1::JobRecord& job = JobOf(state, event);
  const v1::CheckpointPart& ready = event.checkpoint_part();
  v1::Checkpoint* checkpoint = nullptr;
  CheckpointList& list = ListFor(job, ready.step());
  for (v1::Checkpoint& known : list) {
    if (known.step() == ready.step() && known.attempt() == event.attempt()) checkpoint = &known;
  }
  if (checkpoint == nullptr) {
    checkpoint = list.Add();
    checkpoint->set_step(ready.step());
    checkpoint->set_attempt(event.attempt());
    checkpoint->set_parts(ready.parts());
    checkpoint->set_state(v1::CHECKPOINT_STATE_UPLOADING);
  }
  if (!ready.more()) checkpoint->add_parts_present(ready.part());
  if (!ready.head().empty() &&
      !std::count(checkpoint->heads().begin(), checkpoint->heads().end(), ready.head()))
    checkpoint->add_heads(ready.head());
  CheckpointFileList& files =
      state.checkpoint_files[{job.id(), event.attempt(), checkpoint->step()}];
  for (const v1::CheckpointFile& file : ready.files()) {
    *files.Add() = file;
    WeighFile(state, job, file);
    checkpoint->set_bytes(checkpoint->bytes() + file.size());
  }
  checkpoint->set_file_count(static_cast<uint32_t>(files.size()));
}

template <typename Change>
void ChangeCheckpoint(ClusterState& state, const v1::Event& event, int64_t step, uint32_t attempt,
                      Change change) {
  for (v1::Checkpoint& known : ListFor(JobOf(state, event), step)) {
    if (known.step() == step && known.attempt() == attempt) change(known);
  }
}

void ApplyCheckpointRemoved(ClusterState& state, const v1::Event& event) {
  const v1::CheckpointRemoved& removed = event.checkpoint_removed();
  v1::JobRecord& job = JobOf(state, event);
  for (const v1::CheckpointFile& file :
       FilesOf(state, job.id(), removed.attempt(), removed.step())) {
    WeighFile(state, job, file, /*forget=*/true);
  }
  CheckpointList& list = ListFor(job, removed.step());
  const auto kept = std::remove_if(list.begin(), list.end(), [&](const v1::Checkpoint& known) {
    return known.step() == removed.step() && known.attempt() == removed.attempt();
  });
  list.erase(kept, list.end());
  state.checkpoint_files.erase({event.job(), removed.attempt(), removed.step()});
}

// The counts are kept up to date, so that reading them is free.
void SetNodeState(ClusterState& state, Node& node, v1::NodeState to, int64_t at_ms) {
  state.asides = {};
  const auto count = [&](int change) {
    if (node.record.state() == v1::NODE_STATE_SUSPECT) state.silent_nodes += change;
    if (node.record.state() == v1::NODE_STATE_LOST) state.lost_nodes += change;
  };
  count(-1);
  node.record.set_state(to);
  node.record.set_state_ms(at_ms);
  count(1);
}

// Keeps the sum of all nodes' facts, which each registration checks (decide_worker.cc).
void SetFacts(ClusterState& state, Node& node, const v1::NodeFacts& facts) {
  state.node_facts_bytes -= node.record.facts().ByteSizeLong();
  const auto count = [&](int64_t change) {
    for (const auto& [kind, devices] : node.devices) {
      if ((state.kinds[kind] += change) == 0) state.kinds.erase(kind);
    }
  };
  count(-1);
  *node.record.mutable_facts() = facts;
  node.devices = DevicesOf(facts);
  count(1);
  state.node_facts_bytes += facts.ByteSizeLong();
}

// A node may become known after parts on it.
Node& NodeOf(ClusterState& state, const std::string& name) {
  const auto [at, is_new] = state.nodes.try_emplace(name);
  Node& node = at->second;
  if (is_new) {
    ForEachLivePart(state, name,
                    [&](const auto&, const auto&, const auto& part) { Take(node.used, part); });
  }
  return node;
}

void ForgetNode(ClusterState& state, const std::string& name) {
  const auto found = state.nodes.find(name);
  CHECK(found != state.nodes.end());  // our own decision; from a disk: ReplayEvent refuses it
  // No longer counted as silent or lost.
  SetNodeState(state, found->second, v1::NODE_STATE_ALIVE, 0);
  SetFacts(state, found->second, {});
  state.nodes.erase(found);
  state.schedule_needed = true;
}

void ApplyNodeRegistered(ClusterState& state, const v1::Event& event, Now now) {
  Node& node = NodeOf(state, event.node());
  SetFacts(state, node, event.node_registered().facts());
  if (node.cleared_by != node.record.facts().process()) node.cleared_by = 0;
  SetNodeState(state, node, v1::NODE_STATE_ALIVE, event.at_ms());
  node.record.set_reason(node.record.drain_reason());
  node.record.set_registered_ms(event.at_ms());
  node.record.set_last_contact_ms(event.at_ms());
  node.last_contact_mono_ms = now.mono_ms;
  state.schedule_needed = true;
}

void ApplyNodeStateChanged(ClusterState& state, const v1::Event& event) {
  const auto found = state.nodes.find(event.node());
  CHECK(found != state.nodes.end());  // our own decision; from a disk: ReplayEvent refuses it
  const v1::NodeStateChanged& change = event.node_state_changed();
  v1::NodeRecord& record = found->second.record;
  if (change.set_drain()) {
    state.asides = {};
    record.set_draining(change.draining());
    record.set_drain_reason(change.draining() ? change.reason() : "");
  } else {
    SetNodeState(state, found->second, change.state(), event.at_ms());
    record.set_reason(change.reason());
  }
  // Shows what keeps a healthy node from getting jobs; for an unhealthy one the cause of that
  // matters more.
  if (record.state() == v1::NODE_STATE_ALIVE &&
      (change.set_drain() || !record.drain_reason().empty())) {
    record.set_reason(record.drain_reason());
  }
  state.schedule_needed = true;
}

void ApplyNodeContact(ClusterState& state, const v1::Event& event, Now now) {
  const auto found = state.nodes.find(event.node());
  CHECK(found != state.nodes.end());  // our own decision; from a disk: ReplayEvent refuses it
  Node& node = found->second;
  const v1::NodeContact& contact = event.node_contact();
  const bool cleared = contact.cleared() || (node.cleared && node.session == contact.session());
  if (node.record.connected() != contact.connected() || node.cleared != cleared) {
    state.schedule_needed = true;
  }
  node.cleared = cleared;
  if (contact.cleared()) node.cleared_by = node.record.facts().process();
  node.record.set_connected(contact.connected());
  if (contact.has_health()) node.health = contact.health();
  if (!contact.connected()) node.health.Clear();
  node.session = contact.session();
  if (contact.heard()) {
    node.record.set_last_contact_ms(now.wall_ms);
    node.last_contact_mono_ms = now.mono_ms;
  }
}

void ApplyJobRemoved(ClusterState& state, const v1::Event& event) {
  const v1::JobRemoved& removed = event.job_removed();
  if (removed.idempotency_key().empty()) return;
  state.keys.erase(KeyOf(OwnerKey(removed.owner(), removed.owner_id()), removed.idempotency_key()));
}

void ApplyFact(ClusterState& state, const v1::Event& event, Now now) {
  if (event.seq() != 0) state.next_seq = event.seq() + 1;
  switch (event.what_case()) {
    case v1::Event::kJobSubmitted:
      ApplySubmitted(state, event, now);
      break;
    case v1::Event::kAttemptStarted:
      ApplyAttemptStarted(state, event, now);
      break;
    case v1::Event::kMasterPortHeld:
      ApplyMasterPortHeld(state, event);
      break;
    case v1::Event::kPartReady:
      ApplyPartReady(state, event);
      break;
    case v1::Event::kPartPreparing:
      ApplyPartPreparing(state, event, now);
      break;
    case v1::Event::kPartLaunched:
      ChangePart(state, event, [](v1::NodePart& part) { part.set_launched(true); });
      break;
    case v1::Event::kRankExited:
      ApplyRankExited(state, event);
      break;
    case v1::Event::kStopRequested:
      ApplyStopRequested(state, event);
      break;
    case v1::Event::kPartEnded:
      ApplyPartEnded(state, event);
      break;
    case v1::Event::kAttemptEnded:
      ApplyAttemptEnded(state, event);
      break;
    case v1::Event::kJobStateChanged:
      ApplyJobStateChanged(state, event, now);
      break;
    case v1::Event::kReasonChanged:
      JobOf(state, event).set_reason(event.reason_changed().reason());
      Index(state, JobOf(state, event));
      break;
    case v1::Event::kCheckpointPart:
      ApplyCheckpointPart(state, event);
      break;
    case v1::Event::kCheckpointCommitted:
      ChangeCheckpoint(state, event, event.checkpoint_committed().step(), event.attempt(),
                       [&](v1::Checkpoint& known) {
                         known.set_state(v1::CHECKPOINT_STATE_COMMITTED);
                         known.set_committed_ms(event.at_ms());
                       });
      break;
    case v1::Event::kCheckpointRemoved:
      ApplyCheckpointRemoved(state, event);
      break;
    case v1::Event::kCheckpointFlagged:
      ChangeCheckpoint(state, event, event.checkpoint_flagged().step(), event.attempt(),
                       [](v1::Checkpoint& known) { known.set_flagged_corrupt(true); });
      break;
    case v1::Event::kAttemptTakenOver:
      ApplyTakenOver(*JobOf(state, event).mutable_attempts()->rbegin(),
                     event.attempt_taken_over().head());
      break;
    case v1::Event::kCheckpointAbsent:
      ChangeCheckpoint(
          state, event, event.checkpoint_absent().step(), event.attempt(),
          [&](v1::Checkpoint& known) { known.set_absent_at(event.checkpoint_absent().at()); });
      break;
    case v1::Event::kCheckpointFailed:
      ApplyCheckpointFailed(PartOf(state, JobOf(state, event), event), event.checkpoint_failed());
      break;
    case v1::Event::kNodeRegistered:
      ApplyNodeRegistered(state, event, now);
      break;
    case v1::Event::kNodeStateChanged:
      ApplyNodeStateChanged(state, event);
      break;
    case v1::Event::kNodeContact:
      ApplyNodeContact(state, event, now);
      break;
    case v1::Event::kJobRemoved:
      ApplyJobRemoved(state, event);
      break;
    case v1::Event::kJobReleased:
      ApplyReleased(state, event);
      break;
    case v1::Event::kPartAge:
      ApplyPartAge(state, event, now);
      break;
    case v1::Event::kJobProgress:
      ApplyProgress(state, event, now);
      break;
    case v1::Event::kJobSet:
      ApplyJobSet(state, event);
      break;
    case v1::Event::kProjectsSet:
      ApplyProjectsSet(state, event);
      break;
    case v1::Event::kClaimMade:
      ApplyClaimMade(state, event, now);
      break;
    case v1::Event::kClaimEnded:
      EndClaim(state, JobOf(state, event));
      break;
    case v1::Event::kNodeRemoved:
      ForgetNode(state, event.node());
      break;
    case v1::Event::kSignalSent:
      KeepSignal(JobOf(state, event), event.signal_sent().signal());
      break;
    case v1::Event::kNoticeGiven:
      ApplyNoticeGiven(state, event, now);
      break;
    case v1::Event::kNoticeTakenBack:
      ApplyNoticeTakenBack(state, event);
      break;
    case v1::Event::kJobHeld:
      ApplyJobHeld(state, event);
      break;
    case v1::Event::kFindingNoticed:
      *JobOf(state, event).add_noticed() = event.finding_noticed().finding();
      break;
    case v1::Event::kPartVersions:
      *PartOf(state, JobOf(state, event), event).mutable_versions() =
          event.part_versions().versions();
      break;
    case v1::Event::kDiskSpace:
      state.disk = event.disk_space();
      break;
    case v1::Event::kPartSilence:
    case v1::Event::kNotified:
    case v1::Event::kStreamFailed:
      break;  // facts for the history; nothing in the state depends on them
    case v1::Event::WHAT_NOT_SET:
      break;  // from a newer version; the replay refuses events that may not be skipped
  }
  if (IsJournaled(event) && state.jobs.contains(event.job())) {
    v1::JobRecord& job = state.jobs.Edit(event.job());
    job.set_event_count(job.event_count() + 1);
  }
}

// What the event may have made due earlier.
void KeepDue(ClusterState& state, const v1::Event& event, bool was_alarmed) {
  if (event.job() != 0) SetJobDue(state, event.job());
  for (const v1::Victim& victim : event.claim_made().victims()) SetJobDue(state, victim.job());
  for (const v1::NodePart& part : event.attempt_started().attempt().parts())
    SetNodeDue(state, part.node());
  if (event.has_node_registered() || event.has_node_state_changed() || event.has_node_removed())
    SetNodeDue(state, event.node());
  if (was_alarmed == MostNodesSilent(state)) return;
  for (const auto& [name, node] : state.nodes) SetNodeDue(state, name);
}

}  // namespace

std::vector<v1::JobRecord> TakeFinished(ClusterState& state) {
  std::vector<v1::JobRecord> finished;
  for (const uint64_t id : state.finished) {
    Unweigh(state, state.jobs.at(id));
    v1::JobRecord& job = finished.emplace_back(state.jobs.Take(id));
    AttachFiles(state, job);
    state.timers.erase(id);
  }
  state.finished.clear();
  return finished;
}

bool IsJournaled(const v1::Event& event) {
  return !event.has_node_contact() && !event.has_part_age() && !event.has_part_preparing() &&
         !event.has_job_progress();
}

void Apply(ClusterState& state, const v1::Event& event, Now now) {
  const bool was_alarmed = MostNodesSilent(state);
  ApplyFact(state, event, now);
  KeepDue(state, event, was_alarmed);
}

v1::Snapshot MakeSnapshot(const ClusterState& state) {
  v1::Snapshot snapshot;
  const bool is_sealed = std::any_of(state.jobs.begin(), state.jobs.end(), [](const auto& job) {
    return !job.second.spec().sealed_env().empty();
  });
  snapshot.set_format(is_sealed ? 2 : 1);
  snapshot.set_seq(state.next_seq - 1);
  snapshot.set_next_job_id(state.next_job_id);
  for (const auto& [id, job] : state.jobs) {
    v1::JobRecord& record = *snapshot.add_jobs() = WithFiles(state, job);
    if (record.attempts().empty()) continue;
    for (v1::NodePart& part : *record.mutable_attempts()->rbegin()->mutable_parts())
      ForgetDoing(part);
  }
  for (const auto& [name, node] : state.nodes) *snapshot.add_nodes() = node.record;
  if (!state.projects.empty()) *snapshot.mutable_projects() = SharesFrom(state.projects);
  *snapshot.mutable_usage() = state.usage.Get().Snapshot();
  return snapshot;
}

void RestoreSnapshot(ClusterState& state, const v1::Snapshot& snapshot, Now now) {
  // ReplaySnapshot refuses any other.
  CHECK(snapshot.format() >= 1 && snapshot.format() <= kSnapshotFormat);
  state.next_seq = snapshot.seq() + 1;
  state.next_job_id = snapshot.next_job_id();
  state.projects = SharesOf(snapshot.projects());
  state.usage.Edit().Restore(snapshot.usage());
  for (const v1::JobRecord& job : snapshot.jobs()) {
    v1::JobRecord& live = state.jobs.Add(job.id());
    live = job;
    DetachFiles(state, live);
    Weigh(state, live);
    IndexParts(state, live);
    JobTimers& timers = state.timers[job.id()];
    timers.state_since_mono_ms = MonoOf(job.state_lived_ms(), now);
    if (const v1::Attempt* attempt = LiveAttempt(live)) {
      state.usage.Edit().Resume(live, *attempt);
      timers.attempt_since_mono_ms = MonoOf(attempt->started_lived_ms(), now);
      timers.running_since_mono_ms = MonoOf(attempt->running_lived_ms(), now);
      timers.noticed_mono_ms = now.mono_ms;
      timers.asked_mono_ms = now.mono_ms;
      timers.saved_before_notice = SavedStepOf(live, attempt->number());
    }
    if (!job.idempotency_key().empty()) {
      RestoreKey(state, OwnerKey(job), job.idempotency_key(), job.id(), job.spec_hash());
    }
    Index(state, job);
  }
  for (const v1::NodeRecord& record : snapshot.nodes()) {
    Node& node = NodeOf(state, record.facts().name());
    SetNodeState(state, node, record.state(), record.state_ms());
    SetFacts(state, node, record.facts());
    node.record = record;
    node.record.set_connected(false);
    node.last_contact_mono_ms = now.mono_ms;
  }
  for (const auto& [id, job] : state.jobs) SetJobDue(state, id);
  for (const auto& [name, node] : state.nodes) SetNodeDue(state, name);
}

void RestoreKey(ClusterState& state, const std::string& owner, const std::string& key, uint64_t job,
                uint64_t spec_hash) {
  state.keys[KeyOf(owner, key)] = {job, spec_hash};
}

}  // namespace muster::coordinator
