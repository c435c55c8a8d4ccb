#include "coordinator/core/decide/part_reports.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/limits.h"
#include "common/outputs.h"
#include "common/text/text.h"
#include "coordinator/core/decide/commands.h"
#include "coordinator/core/outcome/node_events.h"

namespace muster::coordinator {
namespace {

constexpr size_t kPartProblemBytesMax = 1'024;

// One event, or several if the files do not fit into one.
void AddPartFacts(const ClusterState& state, const std::string& node,
                  const v1::CheckpointPartReady& part, Now now, Decision& decision) {
  size_t bytes = 0;
  const auto begin = [&] {
    v1::Event& event = decision.facts.emplace_back(NodeEvent(node, now));
    event.set_job(part.job());
    event.set_attempt(part.attempt());
    v1::CheckpointPart* fact = event.mutable_checkpoint_part();
    fact->set_step(part.step());
    fact->set_part(part.part());
    fact->set_parts(part.parts());
    fact->set_head(state.settings.head);
    bytes = 0;
    return fact;
  };
  v1::CheckpointPart* fact = begin();
  for (const v1::CheckpointFile& file : part.files()) {
    if (bytes > common::kFilesPieceBytes) {
      fact->set_more(true);
      fact = begin();
    }
    *fact->add_files() = file;
    bytes += file.ByteSizeLong();
  }
}

// Shown to the job's owner in the words that the worker itself uses when it reports the refusal.
void AddPartProblem(const ClusterState& state, const std::string& node,
                    const v1::CheckpointPartReady& part, const std::string& problem, Now now,
                    Decision& decision) {
  const v1::JobRecord& job = state.jobs.at(part.job());
  const v1::Attempt& attempt = *LiveAttempt(job);
  const std::string why =
      common::Printable(absl::StrCat(part.step() == common::kOutputsStep
                                         ? "outputs"
                                         : absl::StrCat("checkpoint step-", part.step()),
                                     ": ", problem)
                            .substr(0, kPartProblemBytesMax));
  if (!IsNewCheckpointError(*FindLivePart(state, job, node), why)) return;
  v1::Event event = PartEvent(job, attempt, node, now);
  event.set_skippable(true);
  event.mutable_checkpoint_failed()->set_why(why);
  decision.facts.push_back(std::move(event));
}

bool IsOfLiveAttempt(const ClusterState& state, const PartSender& sender,
                     const v1::CheckpointPartReady& part) {
  const auto job = state.jobs.find(part.job());
  const v1::Attempt* attempt = job == state.jobs.end() ? nullptr : LiveAttempt(job->second);
  if (attempt == nullptr || attempt->number() != part.attempt()) return false;
  const v1::NodePart* own = FindLivePart(state, job->second, sender.node);
  return own != nullptr && own->incarnation() == sender.incarnation;
}

}  // namespace

bool IsNewCheckpointError(const v1::NodePart& part, std::string_view why) {
  constexpr uint32_t kRecordedMax = 100;
  return part.checkpoint_error() != why && part.checkpoint_errors() < kRecordedMax;
}

void AddCheckpointPart(const ClusterState& state, const PartSender& sender,
                       const v1::CheckpointPartReady& part, const std::string& problem, Now now,
                       Decision& decision) {
  const std::string& node = sender.node;
  absl::Status verdict = JudgePart(state, sender, part);
  Command ack = CheckpointAckCommand(node, part);
  if (verdict.ok() && !problem.empty()) {
    AddPartProblem(state, node, part, problem, now, decision);
    verdict = absl::FailedPreconditionError(problem);
    decision.denials.push_back(
        {Denied::kCheckpoint, absl::StrCat("a checkpoint part from ", node, ": ", problem)});
  } else if (absl::IsPermissionDenied(verdict)) {
    decision.denials.push_back({Denied::kCheckpoint, std::string(verdict.message())});
  }
  if (verdict.ok()) {
    AddPartFacts(state, node, part, now, decision);
  } else if (absl::IsAlreadyExists(verdict)) {
    const v1::Checkpoint* known =
        FindCheckpoint(state.jobs.at(part.job()), part.step(), part.attempt());
    ack.message.mutable_checkpoint_ack()->set_committed(known->state() ==
                                                        v1::CHECKPOINT_STATE_COMMITTED);
  } else {
    ack.message.mutable_checkpoint_ack()->set_refused(true);
    ack.message.mutable_checkpoint_ack()->set_reason(std::string(verdict.message()));
    // The attempt may be over before its worker can report it.
    if (IsOfLiveAttempt(state, sender, part)) {
      AddPartProblem(state, node, part, std::string(verdict.message()), now, decision);
    }
  }
  decision.commands.push_back(std::move(ack));
}

}  // namespace muster::coordinator
