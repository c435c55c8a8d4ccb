// Views of the state: what is reported to the coordinator. Pure.
#include "worker/core/state.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/limits.h"

namespace muster::worker {
namespace {

v1::AttemptPhase PhaseOf(Stage stage) {
  switch (stage) {
    case Stage::kNew:
    case Stage::kPreparing:
      return v1::ATTEMPT_PHASE_HOLDING;
    case Stage::kWaiting:
    case Stage::kRecording:
    case Stage::kFetching:
    case Stage::kSpawning:
      return v1::ATTEMPT_PHASE_PREPARING;
    case Stage::kRunning:
      return v1::ATTEMPT_PHASE_RUNNING;
    case Stage::kEnded:
      return v1::ATTEMPT_PHASE_ENDED;
  }
  return v1::ATTEMPT_PHASE_UNSPECIFIED;
}

// If many ranks failed in many attempts, there is only room for the first one's texts of each.
void KeepFirstTexts(v1::AttemptStatus& status) {
  bool said = false;
  for (v1::RankExit& exit : *status.mutable_exits()) {
    const bool says = !exit.error_message().empty() || !exit.last_lines().empty();
    if (says && !std::exchange(said, true)) continue;
    exit.clear_error_message();
    exit.clear_last_lines();
    exit.clear_launch_error();
  }
}

}  // namespace

std::string KeyText(const AttemptKey& key) { return absl::StrCat(key.job, "-", key.attempt); }

bool IsLive(const Attempt& attempt) { return attempt.stage != Stage::kEnded; }

bool HasShim(const Attempt& attempt) {
  return attempt.stage == Stage::kSpawning || attempt.stage == Stage::kRunning;
}

bool UploadsPending(const Attempt& attempt) {
  if (!attempt.spawned) return false;
  if (!attempt.final_scan_done) return true;
  for (const auto& [at, part] : attempt.parts) {
    if (part.state == PartState::kUploading) return true;
  }
  return false;
}

bool IsFailure(const v1::RankExit& exit) {
  return exit.exit_code() != 0 || exit.signal() != 0 || exit.launch_errno() != 0;
}

bool Resumes(const v1::LaunchAttempt& launch) {
  return launch.resume_step() >= 0 &&
         (launch.resume_file_count() > 0 || !launch.resume_files().empty());
}

v1::AttemptStatus StatusOf(const Attempt& attempt) {
  v1::AttemptStatus status = attempt.status;
  status.set_phase(PhaseOf(attempt.stage));
  if (attempt.stage == Stage::kEnded) {
    status.set_checkpoints_pending(UploadsPending(attempt));
    status.set_logs_drained(attempt.output_drained || !attempt.spawned);
  }
  return status;
}

bool IsToldOf(const Attempt& attempt) {
  return attempt.stage != Stage::kPreparing || attempt.status.master_port() != 0;
}

v1::Register RegisterMessage(const WorkerState& state, Now now) {
  v1::Register message;
  *message.mutable_facts() = state.facts;
  message.set_highest_epoch(state.highest_epoch);
  message.set_cleared(state.cleared);
  for (const auto& [key, attempt] : state.attempts) {
    if (!IsToldOf(attempt)) continue;
    v1::AttemptStatus& status = *message.add_attempts() = StatusOf(attempt);
    if (IsLive(attempt) && attempt.running_since_mono_ms > 0) {
      status.set_ran_ms(now.mono_ms - attempt.running_since_mono_ms);
    }
    for (const auto& [at, part] : attempt.parts) {
      if (part.state == PartState::kReady) *message.add_checkpoint_parts() = part.ready;
    }
  }
  if (message.ByteSizeLong() > common::kControlWholeBytesMax / 2) {
    for (v1::AttemptStatus& status : *message.mutable_attempts()) KeepFirstTexts(status);
  }
  return message;
}

}  // namespace muster::worker
