#include "coordinator/core/outcome/checkpoint_rules.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/limits.h"
#include "common/hash/sha256.h"
#include "common/outputs.h"
#include "common/text/relative_path.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "coordinator/core/state/checkpoint_files.h"
#include "coordinator/core/state/holdings.h"

namespace muster::coordinator {
namespace {

bool IsWhole(const v1::Checkpoint& checkpoint) {
  const std::set<uint32_t> present(checkpoint.parts_present().begin(),
                                   checkpoint.parts_present().end());
  return present.size() == checkpoint.parts();
}

v1::Event CheckpointEvent(const v1::JobRecord& job, const v1::Checkpoint& checkpoint, Now now) {
  v1::Event event;
  event.set_job(job.id());
  event.set_attempt(checkpoint.attempt());
  event.set_at_ms(now.wall_ms);
  return event;
}

v1::Event Removal(const v1::JobRecord& job, const v1::Checkpoint& checkpoint,
                  const std::string& why, Now now) {
  v1::Event event = CheckpointEvent(job, checkpoint, now);
  v1::CheckpointRemoved* removed = event.mutable_checkpoint_removed();
  removed->set_step(checkpoint.step());
  removed->set_attempt(checkpoint.attempt());
  removed->set_why(why);
  return event;
}

// The oldest committed checkpoint beyond `keep`. One that an attempt resumes from stays until the
// whole attempt is launched.
std::optional<v1::Event> RemoveBeyondKeep(const ClusterState& state, const v1::JobRecord& job,
                                          Now now) {
  const uint32_t keep = job.spec().checkpoint().keep() > 0 ? job.spec().checkpoint().keep()
                                                           : state.settings.default_keep;
  const v1::Attempt* attempt = LiveAttempt(job);
  const v1::Checkpoint* resumed = attempt == nullptr ? nullptr : ResumedCheckpoint(job, *attempt);
  std::vector<const v1::Checkpoint*> committed;
  for (const v1::Checkpoint& checkpoint : job.checkpoints()) {
    if (checkpoint.state() == v1::CHECKPOINT_STATE_COMMITTED && !checkpoint.flagged_corrupt()) {
      committed.push_back(&checkpoint);
    }
  }
  if (committed.size() <= keep) return std::nullopt;
  const auto* oldest = *std::min_element(
      committed.begin(), committed.end(), [](const v1::Checkpoint* a, const v1::Checkpoint* b) {
        return std::tuple(a->attempt(), a->step()) < std::tuple(b->attempt(), b->step());
      });
  // A part that is launched late still has to fetch it.
  if (oldest == resumed && !AreLaunched(CountsOf(state, job))) return std::nullopt;
  return Removal(job, *oldest, absl::StrCat("only the newest ", keep, " are kept"), now);
}

// Removes the oldest outputs while all of them take more than the quota. The newest stay:
// JudgeOutputs accepted them, possibly under a larger quota.
std::optional<v1::Event> RemoveOutputsBeyondQuota(const ClusterState& state,
                                                  const v1::JobRecord& job, Now now) {
  const uint64_t quota = state.settings.job_outputs_bytes_max;
  if (quota == 0 || job.outputs_size() < 2) return std::nullopt;
  uint64_t bytes = 0;
  for (const v1::Checkpoint& outputs : job.outputs()) bytes += outputs.bytes();
  if (bytes <= quota) return std::nullopt;
  return Removal(job, job.outputs(0),
                 absl::StrCat("only ", common::HumanBytes(quota),
                              " of a job's outputs are kept (--job-outputs-quota)"),
                 now);
}

// Outputs count once every node has sent its part, or, with the parts that are there, once the
// attempt has ended: a lost node does not hold back the results of other nodes.
std::optional<v1::Event> OutputsConsequence(const ClusterState& state, const v1::JobRecord& job,
                                            const v1::Attempt* attempt, Now now) {
  for (const v1::Checkpoint& outputs : job.outputs()) {
    if (outputs.state() != v1::CHECKPOINT_STATE_UPLOADING) continue;
    const bool is_over = attempt == nullptr || attempt->number() != outputs.attempt();
    if (!is_over && !IsWhole(outputs)) continue;
    v1::Event event = CheckpointEvent(job, outputs, now);
    event.mutable_checkpoint_committed()->set_step(outputs.step());
    return event;
  }
  if (job.outputs_size() > common::kOutputsKept) {
    return Removal(job, job.outputs(0),
                   absl::StrCat("only those of the newest ", common::kOutputsKept, " are kept"),
                   now);
  }
  return RemoveOutputsBeyondQuota(state, job, now);
}

// Whether the job may begin one more step. Its trainers decide how many steps stay unfinished, and each report
// has to look at all of them, so their number is limited.
absl::Status JudgeNewStep(const v1::JobRecord& job, const v1::CheckpointPartReady& part) {
  const auto unfinished = std::count_if(
      job.checkpoints().begin(), job.checkpoints().end(), [](const v1::Checkpoint& checkpoint) {
        return checkpoint.state() == v1::CHECKPOINT_STATE_UPLOADING;
      });
  if (unfinished < kUnfinishedCheckpointsMax) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "step ", part.step(), " would be the ", unfinished + 1,
      "th checkpoint of the job that lacks parts; the limit is ", kUnfinishedCheckpointsMax,
      "; fix: let each rank save its part of every step that it names"));
}

absl::Status JudgeFile(const v1::CheckpointFile& file) {
  constexpr size_t kPathBytesMax = 1'024;
  constexpr uint64_t kFileBytesMax = 1ull << 53;  // exact in a double
  if (file.path().empty() || file.path().size() > kPathBytesMax ||
      !common::IsCleanUtf8(file.path()) || !common::StaysInside(file.path())) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", common::Printable(file.path().substr(0, kPathBytesMax)),
                     "\" is not a valid name for a checkpoint file"));
  }
  if (file.size() > kFileBytesMax || !common::IsSha256Hex(file.sha256())) {
    return absl::InvalidArgumentError(
        absl::StrCat("the size or SHA-256 of ", file.path(), " is not valid"));
  }
  return absl::OkStatus();
}

std::string Named(const v1::CheckpointPartReady& part) {
  return part.step() == common::kOutputsStep ? "the outputs" : absl::StrCat("step ", part.step());
}

absl::Status JudgeFiles(const CheckpointFileList& present, const v1::CheckpointPartReady& part) {
  if (part.files_size() > static_cast<int>(common::kPartFilesMax) ||
      present.size() + part.files_size() > static_cast<int>(common::kCheckpointFilesMax)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Named(part), " would have ", present.size() + part.files_size(),
                     " files; the limits are ", common::kPartFilesMax, " in a part and ",
                     common::kCheckpointFilesMax, " in all; fix: save fewer, larger files"));
  }
  if (part.ByteSizeLong() > common::kPartListBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the names of the ", part.files_size(), " files of ", Named(part), " take ",
        common::HumanBytes(part.ByteSizeLong()), "; the limit is ",
        common::HumanBytes(common::kPartListBytesMax), "; fix: use shorter names or fewer files"));
  }
  std::unordered_set<std::string_view> paths;
  // Only the parts of a checkpoint share a directory; for outputs each node has its own working
  // directory.
  if (part.step() != common::kOutputsStep) {
    for (const v1::CheckpointFile& file : present) paths.insert(file.path());
  }
  for (const v1::CheckpointFile& file : part.files()) {
    if (absl::Status status = JudgeFile(file); !status.ok()) return status;
    if (!paths.insert(file.path()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("file ", file.path(), " appears twice in ", Named(part)));
    }
  }
  return absl::OkStatus();
}

// Outputs: one part per node, and only what the job named.
absl::Status JudgeOutputs(const ClusterState& state, const v1::JobRecord& job,
                          const v1::Attempt& attempt, const PartSender& sender,
                          const v1::Checkpoint* known, const v1::CheckpointPartReady& part) {
  if (job.spec().outputs().empty()) return absl::InvalidArgumentError("the job has no outputs");
  const v1::NodePart* own = FindLivePart(state, job, sender.node);
  if (own == nullptr || part.part() != own->group_rank() ||
      part.parts() != static_cast<uint32_t>(attempt.parts_size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("part ", part.part(), " of ", part.parts(), " is not that of this node"));
  }
  std::vector<std::string> named;
  for (const std::string& output : job.spec().outputs()) {
    if (auto clean = common::CleanOutput(output)) named.push_back(*std::move(clean));
  }
  const uint64_t quota = state.settings.job_outputs_bytes_max;
  const uint64_t bytes_max = common::OutputsBytesMax(quota);
  uint64_t bytes = known == nullptr ? 0 : known->bytes();
  for (const v1::CheckpointFile& file : part.files()) {
    const bool is_named = std::any_of(named.begin(), named.end(), [&](const std::string& output) {
      return common::LiesIn(file.path(), output);
    });
    if (!is_named || file.part() != part.part()) {
      return absl::InvalidArgumentError(
          absl::StrCat("file ", file.path(), " does not belong to the outputs of this node"));
    }
    bytes += file.size();
    if (bytes <= bytes_max) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "the outputs of the attempt would have more than ", common::HumanBytes(bytes_max),
        common::WhyNoMoreOutputs(quota), "; fix: name fewer or smaller outputs"));
  }
  return absl::OkStatus();
}

// Attempts that the record no longer has are judged by their number.
absl::Status JudgeSender(const ClusterState& state, const v1::JobRecord& job,
                         const PartSender& sender, uint32_t number) {
  for (const v1::Attempt& attempt : job.attempts()) {
    if (attempt.number() != number) continue;
    const v1::NodePart* part = &attempt == LiveAttempt(job) ? FindLivePart(state, job, sender.node)
                                                            : FindPart(attempt, sender.node);
    if (part != nullptr && part->incarnation() == sender.incarnation) return absl::OkStatus();
    return absl::PermissionDeniedError(absl::StrCat("attempt ", number, " of ", job.name(),
                                                    " was not assigned to the worker of ",
                                                    common::Printable(sender.node)));
  }
  return absl::OkStatus();
}

}  // namespace

const v1::Checkpoint* FindCheckpoint(const v1::JobRecord& job, int64_t step, uint32_t attempt) {
  for (const v1::Checkpoint& checkpoint : ListFor(job, step)) {
    if (checkpoint.step() == step && checkpoint.attempt() == attempt) return &checkpoint;
  }
  return nullptr;
}

absl::Status JudgePart(const ClusterState& state, const PartSender& sender,
                       const v1::CheckpointPartReady& part) {
  const auto found = state.jobs.find(part.job());
  if (found == state.jobs.end()) return absl::FailedPreconditionError("the job is over");
  const v1::JobRecord& job = found->second;
  if (absl::Status own = JudgeSender(state, job, sender, part.attempt()); !own.ok()) return own;
  const v1::Checkpoint* known = FindCheckpoint(job, part.step(), part.attempt());
  if (known != nullptr) {
    const auto& present = known->parts_present();
    if (std::find(present.begin(), present.end(), part.part()) != present.end()) {
      return absl::AlreadyExistsError("");
    }
    if (known->parts() != part.parts()) {
      return absl::InvalidArgumentError(absl::StrCat("step ", part.step(), " has ", known->parts(),
                                                     " parts, not ", part.parts()));
    }
  }
  const v1::Attempt* attempt = LiveAttempt(job);
  if (attempt == nullptr || attempt->number() != part.attempt()) {
    return absl::FailedPreconditionError(absl::StrCat("attempt ", part.attempt(), " is over"));
  }
  if (part.parts() == 0 || part.parts() > common::kRanksMax || part.part() >= part.parts() ||
      part.step() < common::kOutputsStep) {
    return absl::InvalidArgumentError(
        absl::StrCat("part ", part.part(), " of ", part.parts(), " is not valid"));
  }
  if (known == nullptr && part.step() != common::kOutputsStep) {
    if (absl::Status step = JudgeNewStep(job, part); !step.ok()) return step;
  }
  // Names and sizes first, because the checks below use them.
  absl::Status files = JudgeFiles(FilesOf(state, part.job(), part.attempt(), part.step()), part);
  if (files.ok()) files = MayHold(state, part);
  if (!files.ok() || part.step() != common::kOutputsStep) return files;
  return JudgeOutputs(state, job, *attempt, sender, known, part);
}

std::optional<v1::Event> CheckpointConsequence(const ClusterState& state, const v1::JobRecord& job,
                                               Now now) {
  const v1::Attempt* attempt = LiveAttempt(job);
  if (auto event = OutputsConsequence(state, job, attempt, now)) return event;
  for (const v1::Checkpoint& checkpoint : job.checkpoints()) {
    if (checkpoint.state() != v1::CHECKPOINT_STATE_UPLOADING) continue;
    if (IsWhole(checkpoint)) {
      v1::Event event = CheckpointEvent(job, checkpoint, now);
      event.mutable_checkpoint_committed()->set_step(checkpoint.step());
      return event;
    }
    if (attempt == nullptr || attempt->number() != checkpoint.attempt()) {
      return Removal(job, checkpoint, "its attempt ended before it was complete", now);
    }
  }
  return RemoveBeyondKeep(state, job, now);
}

}  // namespace muster::coordinator
