// steps: consequences shared by several inputs. Pure.
#include "worker/core/steps.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/core/stages.h"

namespace muster::worker {
namespace {

// An older attempt of the same job that is still alive here, or null.
Attempt* OlderLiveAttempt(WorkerState& state, const AttemptKey& key) {
  for (auto at = state.attempts.lower_bound({key.job, 0});
       at != state.attempts.end() && at->first < key; ++at) {
    if (IsLive(at->second)) return &at->second;
  }
  return nullptr;
}

// Wakes attempts of this job that wait for the one that just ended.
void WakeWaiting(Step& step, uint64_t job) {
  for (auto at = step.state.attempts.lower_bound({job, 0});
       at != step.state.attempts.end() && at->first.job == job; ++at) {
    if (at->second.stage == Stage::kWaiting) PrepareOrWait(step, at->second);
  }
}

}  // namespace

Attempt* Step::Find(const AttemptKey& key) {
  auto found = state.attempts.find(key);
  return found == state.attempts.end() ? nullptr : &found->second;
}

Attempt& Step::FindOrAdd(const AttemptKey& key) {
  Attempt& attempt = state.attempts[key];
  attempt.status.set_job(key.job);
  attempt.status.set_attempt(key.attempt);
  return attempt;
}

AttemptKey KeyOf(const Attempt& attempt) {
  return {attempt.status.job(), attempt.status.attempt()};
}

void Send(Step& step, v1::WorkerMessage message) {
  if (step.state.contact.link == LinkStage::kDown) return;
  step.Do(SendAction{std::move(message)});
}

void Report(Step& step, const Attempt& attempt) {
  v1::WorkerMessage message;
  *message.mutable_attempt_status() = StatusOf(attempt);
  Send(step, std::move(message));
}

void EndAttempt(Step& step, Attempt& attempt, const End& end) {
  const AttemptKey key = KeyOf(attempt);
  const Stage before = attempt.stage;
  Move(attempt, Change::kEnd);
  attempt.status.set_how_ended(end.how);
  if (!end.failure.empty()) attempt.status.set_failure(end.failure);
  if (end.cause != v1::STOP_CAUSE_UNSPECIFIED) attempt.status.set_failure_cause(end.cause);
  if (attempt.fenced_itself) attempt.status.set_failure_cause(v1::STOP_CAUSE_NODE_LOST);
  if (before == Stage::kFetching) step.Do(CancelFetchAction{key});
  if (before == Stage::kPreparing && attempt.prepares && !attempt.status.ready()) {
    step.Do(CancelPreparationAction{key});
  }
  if (!attempt.status.preparation().doing().empty()) attempt.status.clear_preparation();
  step.Do(ReleaseRendezvousAction{key});
  step.Do(NoteAction{absl::StrCat("attempt ended job=", key.job, " attempt=", key.attempt,
                                  " from=", StageName(before), " how=\"", end.how, "\"",
                                  end.failure.empty() ? "" : " failure=\"", end.failure,
                                  end.failure.empty() ? "" : "\"")});
  attempt.upload_progress_mono_ms = step.now.mono_ms;
  if (attempt.spawned) step.Do(FinalScanAction{key});
  Report(step, attempt);
  WakeWaiting(step, key.job);
  MaybeForget(step, key);
}

void MaybeForget(Step& step, const AttemptKey& key) {
  Attempt* attempt = step.Find(key);
  if (attempt == nullptr || !attempt->forget_wanted || IsLive(*attempt)) return;
  if (attempt->spawned && (!attempt->output_drained || UploadsPending(*attempt))) return;
  step.Do(DeleteAttemptAction{key});
  step.state.attempts.erase(key);
  uint32_t& highest = step.state.forgotten[key.job];
  highest = std::max(highest, key.attempt);
  if (step.state.forgotten.size() > kForgottenMax) {
    step.state.forgotten.erase(step.state.forgotten.begin());
  }
}

void StopAttemptHere(Step& step, Attempt& attempt, const Stop& stop) {
  const AttemptKey key = KeyOf(attempt);
  if (!IsLive(attempt)) return Report(step, attempt);
  const bool first = !attempt.stop_wanted;
  attempt.stop_grace_ms = first ? stop.grace_ms : std::min(attempt.stop_grace_ms, stop.grace_ms);
  attempt.stop_wanted = true;
  if (first) {
    attempt.stop_cause = stop.cause;
    attempt.stop_reason = stop.reason;
  }
  if (!HasShim(attempt)) return EndAttempt(step, attempt, {"never launched", "", {}});
  // The ranks that are still running may be those that the failed one was waiting for: have them
  // write down what they are doing before they are told to stop.
  if (first &&
      (stop.cause == v1::STOP_CAUSE_RANK_FAILED || stop.cause == v1::STOP_CAUSE_TIME_LIMIT)) {
    step.Do(DiagnoseAction{key, 0, stop.reason});
  }
  if (first) step.Do(NotifyStopAction{key, stop.reason, attempt.stop_grace_ms});
  step.Do(StopShimAction{key, attempt.stop_grace_ms});
}

void PrepareOrWait(Step& step, Attempt& attempt) {
  const AttemptKey key = KeyOf(attempt);
  if (Attempt* older = OlderLiveAttempt(step.state, key); older != nullptr) {
    // Two processes of one (job, rank) must never be alive at once; the coordinator has already
    // given up the older attempt.
    if (attempt.stage != Stage::kWaiting) Move(attempt, Change::kWait);
    StopAttemptHere(step, *older, {0, v1::STOP_CAUSE_RANK_FAILED, "a newer attempt starts"});
    return;
  }
  Move(attempt, Change::kRecord);
  step.Do(RecordLaunchAction{key, attempt.launch});
}

void SpawnNow(Step& step, Attempt& attempt) {
  // The preparation may be old, for example if the node was frozen.
  if (FenceIfDue(step, attempt)) return;
  if (!IsContactFresh(step.state, step.now)) return WaitForContact(step, attempt);
  attempt.spawn_waits = false;
  Move(attempt, Change::kSpawn);
  attempt.spawned = true;
  attempt.upload_progress_mono_ms = step.now.mono_ms;
  step.Do(SpawnAction{KeyOf(attempt), FenceDeadlineMs(step.state, attempt).value_or(0)});
}

}  // namespace muster::worker
