// Checkpoints of this node: which directories count, what is reported about them, which may be
// deleted. Pure.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/outputs.h"
#include "worker/core/steps.h"

namespace muster::worker {
namespace {

struct PartNumber {
  bool counts = false;
  uint32_t part = 0;
  uint32_t parts = 0;
};

// Without a part file, a directory is either the whole checkpoint of rank 0's node, or one part per
// node (docs/protocol.md).
PartNumber NumberOf(const v1::LaunchAttempt& launch, const CheckpointFoundInput& found) {
  if (found.parts > 0) return {true, found.part, found.parts};
  if (launch.spec().checkpoint().writers() == v1::CHECKPOINT_WRITERS_ALL) {
    return {true, launch.part().group_rank(), std::max(1u, launch.group_world_size())};
  }
  return {launch.part().first_rank() == 0, 0, 1};
}

void Problem(Step& step, Attempt& attempt, int64_t step_number, const std::string& reason) {
  const AttemptKey key = KeyOf(attempt);
  const bool is_outputs = step_number == common::kOutputsStep;
  const std::string text = absl::StrCat(
      is_outputs ? "outputs" : absl::StrCat("checkpoint step-", step_number), ": ", reason);
  if (!is_outputs) step.Do(NotifyErrorAction{key, text});
  step.Do(NoteAction{absl::StrCat("checkpoint refused job=", key.job, " attempt=", key.attempt,
                                  " reason=\"", text, "\"")});
  attempt.status.set_checkpoint_error(text);
  Report(step, attempt);
}

void SettleUploads(Step& step, const AttemptKey& key) {
  Attempt* attempt = step.Find(key);
  if (attempt == nullptr || IsLive(*attempt)) return;
  if (!UploadsPending(*attempt)) Report(step, *attempt);
  MaybeForget(step, key);
}

// Deletes committed step directories beyond the newest few from the node; the coordinator has them.
// Outputs are the job's own files.
void DropOldSteps(Step& step, Attempt& attempt) {
  size_t newer = 0;
  for (auto at = attempt.parts.rbegin(); at != attempt.parts.rend();) {
    if (at->first.first == common::kOutputsStep) break;  // it sorts before all steps
    if (at->second.state != PartState::kCommitted || ++newer <= kCommittedStepsKept) {
      ++at;
      continue;
    }
    step.Do(DeleteStepAction{KeyOf(attempt), at->first.first});
    at = decltype(at)(attempt.parts.erase(std::next(at).base()));
  }
}

// All ranks of this node have ended: nothing of the job writes there anymore.
void TakeOutputs(Step& step, Attempt& attempt) {
  const v1::LaunchAttempt& launch = attempt.launch;
  // One that the coordinator has given up does not count anymore.
  if (!attempt.spawned || launch.spec().outputs().empty() || attempt.forget_wanted) return;
  const uint32_t part = launch.part().group_rank();
  if (!attempt.parts.try_emplace({common::kOutputsStep, part}).second) return;
  attempt.upload_progress_mono_ms = step.now.mono_ms;
  step.Do(UploadAction{KeyOf(attempt), common::kOutputsStep, part,
                       std::max(1u, launch.group_world_size()), launch.spec(),
                       launch.outputs_quota_bytes()});
}

CheckpointPart* FindPart(Attempt* attempt, int64_t step_number, uint32_t part) {
  if (attempt == nullptr) return nullptr;
  auto found = attempt->parts.find({step_number, part});
  return found == attempt->parts.end() ? nullptr : &found->second;
}

}  // namespace

void OnCheckpointFound(Step& step, const CheckpointFoundInput& input) {
  Attempt* attempt = step.Find(input.key);
  if (attempt == nullptr) return;
  const PartNumber number = NumberOf(attempt->launch, input);
  if (!number.counts || FindPart(attempt, input.step, number.part) != nullptr) return;
  attempt->parts[{input.step, number.part}] = {};
  attempt->upload_progress_mono_ms = step.now.mono_ms;
  step.Do(UploadAction{input.key, input.step, number.part, number.parts});
}

void OnCheckpointRefused(Step& step, const CheckpointRefusedInput& input) {
  if (Attempt* attempt = step.Find(input.key); attempt != nullptr) {
    Problem(step, *attempt, input.step, input.reason);
  }
}

void OnUploadProgress(Step& step, const UploadProgressInput& input) {
  if (Attempt* attempt = step.Find(input.key); attempt != nullptr) {
    attempt->upload_progress_mono_ms = step.now.mono_ms;
  }
}

void OnUploadDone(Step& step, const UploadDoneInput& input) {
  const AttemptKey key{input.ready.job(), input.ready.attempt()};
  CheckpointPart* part = FindPart(step.Find(key), input.ready.step(), input.ready.part());
  if (part == nullptr || part->state == PartState::kCommitted) return;
  part->state = PartState::kReady;
  part->ready = input.ready;
  step.Find(key)->upload_progress_mono_ms = step.now.mono_ms;
  v1::WorkerMessage message;
  *message.mutable_checkpoint_part() = input.ready;
  Send(step, std::move(message));
  if (!input.left_out.empty()) Problem(step, *step.Find(key), input.ready.step(), input.left_out);
  SettleUploads(step, key);
}

void OnUploadFailed(Step& step, const UploadFailedInput& input) {
  Attempt* attempt = step.Find(input.key);
  CheckpointPart* part = FindPart(attempt, input.step, input.part);
  if (part == nullptr) return;
  part->state = PartState::kFailed;
  Problem(step, *attempt, input.step, input.reason);
  SettleUploads(step, input.key);
}

void OnFinalScanDone(Step& step, const FinalScanDoneInput& input) {
  Attempt* attempt = step.Find(input.key);
  if (attempt == nullptr || attempt->final_scan_done) return;
  attempt->final_scan_done = true;
  TakeOutputs(step, *attempt);
  SettleUploads(step, input.key);
}

void OnCheckpointAck(Step& step, const v1::CheckpointAck& ack) {
  const AttemptKey key{ack.job(), ack.attempt()};
  Attempt* attempt = step.Find(key);
  CheckpointPart* part = FindPart(attempt, ack.step(), ack.part());
  if (part == nullptr) return;
  if (ack.refused()) {
    if (part->state == PartState::kFailed) return;
    part->state = PartState::kFailed;
    return Problem(step, *attempt, ack.step(), ack.reason());
  }
  if (!ack.committed()) {
    if (part->state == PartState::kReady) part->state = PartState::kAcknowledged;
    return;
  }
  if (part->state == PartState::kCommitted) return;
  part->state = PartState::kCommitted;
  part->ready.clear_files();
  if (ack.step() == common::kOutputsStep) return;  // its trainers have ended
  step.Do(NotifyCommittedAction{key, ack.step()});
  DropOldSteps(step, *attempt);
}

}  // namespace muster::worker
