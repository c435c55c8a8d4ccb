#include "coordinator/core/decide/commands.h"

#include <optional>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/version.h"
#include "common/job/code.h"
#include "common/text/text.h"
#include "coordinator/core/decide/rank_table.h"
#include "coordinator/core/state/checkpoint_files.h"
#include "coordinator/core/state/rendezvous.h"
#include "coordinator/core/views/notice_text.h"

namespace muster::coordinator {
namespace {

// Older workers need the list in the launch.
constexpr uint32_t kProtocolListsResumeFiles = 2;

template <typename Message>
void Address(Message* message, const v1::JobRecord& job, const v1::Attempt& attempt) {
  message->set_job(job.id());
  message->set_attempt(attempt.number());
}

void FillLaunch(const ClusterState& state, const v1::JobRecord& job, const v1::Attempt& attempt,
                const v1::NodePart& part, v1::LaunchAttempt* launch) {
  Address(launch, job, attempt);
  launch->set_job_name(job.name());
  launch->set_owner(job.owner());
  launch->set_owner_id(job.owner_id());
  launch->set_account(job.account());
  *launch->mutable_spec() = job.spec();
  // Resolved here, so that the node and the coordinator never compute the fence from different
  // defaults.
  launch->mutable_spec()->set_grace_ms(GraceMsOf(state, job.spec()));
  launch->mutable_spec()->set_stop_after_ms(StopAfterMsOf(state, job.spec()));
  launch->set_world_size(attempt.world_size());
  *launch->mutable_part() = part;
  launch->set_group_world_size(attempt.parts_size());
  FillRendezvous(attempt, part, launch);
  FillRankTable(state, attempt, launch);
  launch->set_restart_count(attempt.number());
  launch->set_max_restarts(job.spec().restarts());
  launch->set_gang_spans_nodes(attempt.parts_size() > 1);
  launch->set_spool_quota_bytes(state.settings.spool_quota_bytes);
  launch->set_outputs_quota_bytes(state.settings.job_outputs_bytes_max);
  launch->mutable_part()->clear_preparation();
  launch->set_resume_step(attempt.resume_step());
  if (attempt.resume_step() < 0) return;
  const v1::Checkpoint* from = ResumedCheckpoint(job, attempt);
  // Kept while an attempt starts from it; replayed.cc checks events from a disk.
  CHECK(from != nullptr);
  launch->set_resume_file_count(from->file_count());
  launch->set_resume_attempt(from->attempt());
  const Node* node = FindNode(state, part.node());
  if (node == nullptr || node->record.facts().protocol() >= kProtocolListsResumeFiles) return;
  *launch->mutable_resume_files() = FilesOf(state, job.id(), from->attempt(), from->step());
}

// Every node checks before any rank starts anywhere, and offers its part of the rendezvous.
void FillPrepare(const v1::JobRecord& job, const v1::Attempt& attempt, const v1::NodePart& part,
                 v1::PrepareAttempt* order) {
  Address(order, job, attempt);
  FillRendezvous(attempt, part, order);
  order->set_first_rank(part.first_rank());
  order->set_device_kind(part.device_kind());
  order->set_owner(job.owner());
  order->set_account(job.account());
  if (job::NeedsPreparation(job.spec())) {
    // The worker checks the prepared files itself.
    *order->mutable_spec() = job.spec();
    *order->mutable_part() = part;
    order->mutable_part()->clear_preparation();
    return;
  }
  order->set_workdir(job.spec().workdir());
  if (!job.spec().command().empty()) order->set_program(job.spec().command(0));
  const auto path = job.spec().env().find("PATH");
  if (path != job.spec().env().end()) order->set_search_path(path->second);
}

void FillStop(const v1::JobRecord& job, const v1::Attempt& attempt, v1::StopAttempt* stop) {
  Address(stop, job, attempt);
  stop->set_grace_ms(attempt.stop_grace_ms());
  stop->set_cause(attempt.cause());
  // A journal of an older release may contain a longer reason, which workers reject.
  stop->set_reason(common::Printable(attempt.reason().substr(0, common::kReasonBytesMax), true));
}

void FillSave(const v1::JobRecord& job, const v1::Attempt& attempt, v1::SaveAttempt* save) {
  Address(save, job, attempt);
  const v1::Notice& notice = attempt.notice();
  const bool by_person = IsAskedByPerson(attempt);
  const std::string reason = by_person ? WhyItLeaves(notice) : notice.reason();
  save->set_reason(common::Printable(reason.substr(0, common::kReasonBytesMax), true));
  save->set_period_ms(by_person ? notice.asked().period_ms() : notice.period_ms());
}

// The next command for this part's worker, from the part's state alone.
std::optional<Command> CommandForPart(const ClusterState& state, const v1::JobRecord& job,
                                      const v1::Attempt& attempt, const v1::NodePart& part) {
  Command command{part.node(), {}};
  if (part.ended()) {
    Address(command.message.mutable_forget(), job, attempt);
  } else if (attempt.stopping()) {
    FillStop(job, attempt, command.message.mutable_stop());
  } else if (!part.ready()) {
    FillPrepare(job, attempt, part, command.message.mutable_prepare());
  } else if (!part.launched() && AreReady(CountsOf(state, job))) {
    FillLaunch(state, job, attempt, part, command.message.mutable_launch());
  } else if (part.launched() && NoticeStands(state, attempt)) {
    FillSave(job, attempt, command.message.mutable_save());
  } else {
    return std::nullopt;
  }
  return command;
}

void AddPartCommand(const ClusterState& state, const v1::JobRecord& job, const v1::NodePart& part,
                    std::vector<Command>& commands) {
  if (auto command = CommandForPart(state, job, *job.attempts().rbegin(), part))
    commands.push_back(*std::move(command));
}

// To all parts that have not ended.
void AddPartCommands(const ClusterState& state, const v1::JobRecord& job,
                     std::vector<Command>& commands) {
  const v1::Attempt* attempt = LiveAttempt(job);
  if (attempt == nullptr) return;
  for (const v1::NodePart& part : attempt->parts()) {
    if (!part.ended()) AddPartCommand(state, job, part, commands);
  }
}

// Everything that remains to be done there, including forgetting.
void AddNodeCommands(const ClusterState& state, const std::string& node,
                     std::vector<Command>& commands) {
  for (const auto& [id, place] : state.live_parts.On(node)) {
    const v1::JobRecord& job = state.jobs.at(id);
    AddPartCommand(state, job, job.attempts().rbegin()->parts(place), commands);
  }
}

void AddCommittedAcks(const v1::JobRecord& job, const v1::Event& event,
                      std::vector<Command>& commands) {
  if (job.attempts().empty()) return;
  for (const v1::NodePart& part : job.attempts().rbegin()->parts()) {
    Command command{part.node(), {}};
    v1::CheckpointAck* ack = command.message.mutable_checkpoint_ack();
    ack->set_job(job.id());
    ack->set_attempt(event.attempt());
    ack->set_step(event.checkpoint_committed().step());
    ack->set_part(part.group_rank());
    ack->set_committed(true);
    commands.push_back(std::move(command));
  }
}

void AddSignal(const v1::JobRecord& job, int32_t signal, std::vector<Command>& commands) {
  const v1::Attempt* attempt = LiveAttempt(job);
  if (attempt == nullptr) return;
  for (const v1::NodePart& part : attempt->parts()) {
    Command command{part.node(), {}};
    Address(command.message.mutable_signal(), job, *attempt);
    command.message.mutable_signal()->set_signal(signal);
    commands.push_back(std::move(command));
  }
}

void AddSave(const ClusterState& state, const v1::JobRecord& job, bool is_first,
             std::vector<Command>& commands) {
  const v1::Attempt* attempt = LiveAttempt(job);
  if (attempt == nullptr || attempt->stopping()) return;
  AddPartCommands(state, job, commands);
  // Once: a program need not expect a second one.
  if (is_first && job.spec().notice_signal() > 0)
    AddSignal(job, job.spec().notice_signal(), commands);
}

}  // namespace

std::vector<Command> CommandsFor(const ClusterState& state, const v1::Event& event) {
  std::vector<Command> commands;
  if (event.has_node_contact()) {
    if (!event.node_contact().cleared()) return commands;
    AddNodeCommands(state, event.node(), commands);
    return commands;
  }
  const auto found = state.jobs.find(event.job());
  if (found == state.jobs.end()) return commands;
  const v1::JobRecord& job = found->second;
  switch (event.what_case()) {
    case v1::Event::kAttemptStarted:
      AddPartCommands(state, job, commands);
      break;
    case v1::Event::kMasterPortHeld:
    case v1::Event::kPartReady:
      if (AreReady(CountsOf(state, job))) AddPartCommands(state, job, commands);
      break;
    case v1::Event::kStopRequested:
      AddPartCommands(state, job, commands);
      break;
    case v1::Event::kPartEnded:
      if (const v1::NodePart* part = FindLivePart(state, job, event.node()))
        AddPartCommand(state, job, *part, commands);  // to forget it
      break;
    case v1::Event::kCheckpointCommitted:
      AddCommittedAcks(job, event, commands);
      break;
    case v1::Event::kClaimMade:
      for (const v1::Victim& victim : event.claim_made().victims()) {
        if (const auto asked = state.jobs.find(victim.job()); asked != state.jobs.end())
          AddSave(state, asked->second, /*is_first=*/true, commands);
      }
      break;
    case v1::Event::kNoticeGiven:
      if (const v1::Asked& asked = event.notice_given().asked(); asked.period_ms() > 0) {
        const bool is_first =
            asked.given_ms() == event.at_ms() && job.attempts().rbegin()->notice().by() == 0;
        AddSave(state, job, is_first, commands);
      }
      break;
    case v1::Event::kSignalSent:
      AddSignal(job, event.signal_sent().signal(), commands);
      break;
    default:
      break;
  }
  return commands;
}

std::vector<Command> StopCommands(const ClusterState& state, const std::string& node) {
  std::vector<Command> commands;
  ForEachLivePart(state, node, [&](const auto& job, const auto& attempt, const auto& part) {
    if (attempt.stopping()) AddPartCommand(state, job, part, commands);
  });
  return commands;
}

std::vector<Command> StopCommandsOf(const ClusterState& state, const v1::JobRecord& job) {
  std::vector<Command> commands;
  const v1::Attempt* attempt = LiveAttempt(job);
  if (attempt != nullptr && attempt->stopping()) AddPartCommands(state, job, commands);
  return commands;
}

Command DismissCommand(const std::string& node, const v1::AttemptStatus& status) {
  Command command{node, {}};
  if (status.phase() == v1::ATTEMPT_PHASE_ENDED) {
    command.message.mutable_forget()->set_job(status.job());
    command.message.mutable_forget()->set_attempt(status.attempt());
  } else {
    v1::StopAttempt* stop = command.message.mutable_stop();
    stop->set_job(status.job());
    stop->set_attempt(status.attempt());
    stop->set_cause(v1::STOP_CAUSE_NODE_LOST);
    stop->set_reason("the coordinator no longer has this attempt");
  }
  return command;
}

Command CheckpointAckCommand(const std::string& node, const v1::CheckpointPartReady& part) {
  Command command{node, {}};
  v1::CheckpointAck* ack = command.message.mutable_checkpoint_ack();
  ack->set_job(part.job());
  ack->set_attempt(part.attempt());
  ack->set_step(part.step());
  ack->set_part(part.part());
  return command;
}

}  // namespace muster::coordinator
