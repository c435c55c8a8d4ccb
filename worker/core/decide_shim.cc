// What a shim says about its ranks, and what a restarted worker found. Pure.
#include "worker/core/stages.h"
#include "worker/core/steps.h"

namespace muster::worker {

void OnRanksStarted(Step& step, const RanksStartedInput& input) {
  Attempt* attempt = step.Find(input.key);
  if (attempt == nullptr || !HasShim(*attempt)) return;
  if (attempt->stage == Stage::kSpawning) Move(*attempt, Change::kRanksStarted);
  attempt->status.set_ranks_started(input.count);
  Report(step, *attempt);
  // The stop may have overtaken the shim's start.
  if (attempt->stop_wanted) step.Do(StopShimAction{input.key, attempt->stop_grace_ms});
}

void OnRankExited(Step& step, const RankExitedInput& input) {
  Attempt* attempt = step.Find(input.key);
  if (attempt == nullptr) return;
  for (const v1::RankExit& known : attempt->status.exits()) {
    if (known.rank() == input.exit.rank()) return;
  }
  *attempt->status.add_exits() = input.exit;
  Report(step, *attempt);
}

void OnAttemptEnded(Step& step, const AttemptEndedInput& input) {
  Attempt* attempt = step.Find(input.key);
  if (attempt == nullptr || !IsLive(*attempt)) return;
  EndAttempt(step, *attempt, {input.how, input.failure, input.failure_cause});
}

void OnRestored(Step& step, const RestoredInput& input) {
  if (step.Find(input.key) != nullptr) return;
  Attempt& attempt = step.FindOrAdd(input.key);
  attempt.launch = input.launch;
  attempt.spawned = true;
  attempt.upload_progress_mono_ms = step.now.mono_ms;
  attempt.status.set_ranks_started(input.ranks_started);
  if (input.launch.is_master()) attempt.status.set_master_port(input.launch.master_port());
  Move(attempt, Change::kPrepare);
  Move(attempt, Change::kSpawn);
  if (input.ranks_started > 0) Move(attempt, Change::kRanksStarted);
}

void OnOutputDrained(Step& step, const OutputDrainedInput& input) {
  Attempt* attempt = step.Find(input.key);
  if (attempt == nullptr || attempt->output_drained) return;
  attempt->output_drained = true;
  if (!IsLive(*attempt)) Report(step, *attempt);
  MaybeForget(step, input.key);
}

}  // namespace muster::worker
