// What a shim reports about its ranks, and what a restarted worker found. Pure.
#include "absl/strings/str_cat.h"
#include "common/base/limits.h"
#include "common/device_kinds.h"
#include "worker/core/stages.h"
#include "worker/core/steps.h"

namespace muster::worker {
namespace {

// Bounds the texts of an exit. A status holds all exits of a node: the first failures keep
// everything, later ones only the beginning.
void BoundTexts(v1::RankExit& exit, bool in_full) {
  const auto bound = [&](std::string* text, size_t most) {
    if (text->size() > (in_full ? most : common::kFailureShortBytes)) {
      text->resize(in_full ? most : common::kFailureShortBytes);
    }
  };
  bound(exit.mutable_error_message(), common::kErrorMessageBytesMax);
  bound(exit.mutable_launch_error(), common::kReasonBytesMax);
  if (!in_full) exit.clear_last_lines();
  bound(exit.mutable_last_lines(), common::kLastLinesBytesMax);
}

// It stopped its ranks unasked: nothing renewed the lease while no worker was running, or it was
// sent a signal. Not the ranks' fault.
void NoteUnaskedStop(Step& step, Attempt& attempt, const v1::RankExit& exit) {
  if (!exit.stopped_by_us() || attempt.stop_wanted || !attempt.status.failure().empty()) return;
  attempt.status.set_failure(
      absl::StrCat("the supervisor (muster-shim) on node ", step.state.facts.name(),
                   " stopped its ranks although this worker had not asked it to"));
  attempt.status.set_failure_cause(v1::STOP_CAUSE_NODE_LOST);
}

}  // namespace

void OnRanksStarted(Step& step, const RanksStartedInput& input) {
  Attempt* attempt = step.Find(input.key);
  if (attempt == nullptr || !HasShim(*attempt)) return;
  if (attempt->stage == Stage::kSpawning) Move(*attempt, Change::kRanksStarted);
  attempt->status.set_ranks_started(input.count);
  attempt->running_since_mono_ms = input.since_mono_ms > 0 ? input.since_mono_ms : step.now.mono_ms;
  Report(step, *attempt);
  // The stop may have overtaken the shim's start.
  if (attempt->stop_wanted) step.Do(StopShimAction{input.key, attempt->stop_grace_ms});
}

void OnFrameworkSeen(Step& step, const FrameworkSeenInput& input) {
  Attempt* attempt = step.Find(input.key);
  if (attempt == nullptr || !IsLive(*attempt) || attempt->status.has_versions()) return;
  v1::Versions& versions = *attempt->status.mutable_versions();
  versions.set_framework(input.framework);
  versions.set_toolkit(input.toolkit);
  if (common::IsCudaKind(attempt->launch.part().device_kind())) {
    versions.set_driver(step.state.facts.driver());
    versions.set_driver_cuda(step.state.facts.driver_cuda());
  }
  Report(step, *attempt);
}

void OnRankExited(Step& step, const RankExitedInput& input) {
  Attempt* attempt = step.Find(input.key);
  if (attempt == nullptr) return;
  for (const v1::RankExit& known : attempt->status.exits()) {
    if (known.rank() == input.exit.rank()) return;
  }
  v1::RankExit& exit = *attempt->status.add_exits() = input.exit;
  if (IsFailure(exit)) {
    BoundTexts(exit, ++attempt->failed_ranks <= common::kFailuresToldInFull);
  }
  NoteUnaskedStop(step, *attempt, exit);
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
  Move(attempt, Change::kRecord);
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
