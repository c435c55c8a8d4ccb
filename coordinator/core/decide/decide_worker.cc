#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/limits.h"
#include "common/problem.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "coordinator/core/decide/commands.h"
#include "coordinator/core/decide/decide.h"
#include "coordinator/core/decide/node_facts.h"
#include "coordinator/core/decide/part_reports.h"
#include "coordinator/core/decide/registration.h"
#include "coordinator/core/outcome/node_events.h"
#include "coordinator/core/outcome/settle.h"
#include "coordinator/core/state/rendezvous.h"
#include "coordinator/core/views/preparation_reports.h"

namespace muster::coordinator {
namespace {

constexpr size_t kCheckpointErrorBytesMax = 1'024;
constexpr int64_t kAgeSlackMs = 1'000;  // precision of reported ages
constexpr int64_t kAgeMsMax =
    int64_t{20} * 365 * 86'400'000;  // of ranks; anything larger is invalid

v1::Event Contact(const std::string& node, uint64_t session, bool heard, Now now) {
  v1::Event event = NodeEvent(node, now);
  event.mutable_node_contact()->set_connected(session != 0);
  event.mutable_node_contact()->set_session(session);
  event.mutable_node_contact()->set_heard(heard);
  return event;
}

// A sentence from a worker, bounded and safe to print.
std::string Said(const std::string& text, size_t most = common::kReasonBytesMax) {
  return common::Printable(text.substr(0, most), /*keep_layout=*/true);
}

// Bounds the texts of a rank's exit. The first failures of an attempt keep everything, later ones
// only the beginning: a thousand tracebacks tell a reader no more than one does.
void BoundTexts(v1::RankExit& exit, bool in_full) {
  exit.set_error_message(Said(
      exit.error_message(), in_full ? common::kErrorMessageBytesMax : common::kFailureShortBytes));
  exit.set_last_lines(in_full ? Said(exit.last_lines(), common::kLastLinesBytesMax) : "");
  exit.set_launch_error(
      Said(exit.launch_error(), in_full ? common::kReasonBytesMax : common::kFailureShortBytes));
}

bool StoppedItself(const v1::AttemptStatus& status) {
  return !status.failure().empty() && (status.failure_cause() == v1::STOP_CAUSE_NODE_LOST ||
                                       status.failure_cause() == v1::STOP_CAUSE_SUPERVISOR_LOST);
}

// Ignores a cause that this version does not know, from a newer or broken worker.
v1::StopCause CauseOf(const v1::AttemptStatus& status) {
  return v1::StopCause_IsValid(status.failure_cause()) ? status.failure_cause()
                                                       : v1::STOP_CAUSE_UNSPECIFIED;
}

// Adds new exits, ordered by the node's monotonic clock. The first failure that we did not cause
// ourselves is the attempt's culprit.
void AddExits(const v1::JobRecord& job, const v1::Attempt& attempt, const v1::NodePart& part,
              const v1::AttemptStatus& status, Now now, std::vector<v1::Event>& facts) {
  std::set<uint32_t> known;
  for (const v1::RankExit& exit : part.exits()) known.insert(exit.rank());
  std::vector<v1::RankExit> fresh;
  for (const v1::RankExit& exit : status.exits()) {
    const bool ours = exit.rank() >= part.first_rank() &&
                      exit.rank() < part.first_rank() + part.local_world_size();
    if (ours && known.insert(exit.rank()).second) fresh.push_back(exit);
  }
  std::stable_sort(fresh.begin(), fresh.end(), [](const v1::RankExit& a, const v1::RankExit& b) {
    return a.since_start_us() < b.since_start_us();
  });
  bool has_culprit = attempt.has_culprit();
  uint32_t failed = attempt.failed_ranks();
  for (v1::RankExit& exit : fresh) {
    exit.set_node(part.node());
    if (IsFailure(exit)) ++failed;
    v1::Event event = PartEvent(job, attempt, part.node(), now);
    exit.set_signal_sent_by_us(std::find(attempt.signals_sent().begin(),
                                         attempt.signals_sent().end(),
                                         exit.signal()) != attempt.signals_sent().end());
    // We asked for the stop, or its node did: a node that lost contact reports it once the whole
    // attempt has ended there.
    const bool asked_for = exit.stopped_by_us() && (attempt.stopping() || StoppedItself(status));
    const bool first = !has_culprit && IsFailure(exit) && !asked_for;
    has_culprit |= first;
    BoundTexts(exit, first || failed <= common::kFailuresToldInFull);
    event.mutable_rank_exited()->set_first_failure(first);
    *event.mutable_rank_exited()->mutable_exit() = std::move(exit);
    facts.push_back(std::move(event));
  }
}

// A node reports that the ranks have run for longer than is known here, because the coordinator was
// down.
bool IsNewAge(const ClusterState& state, const v1::JobRecord& job, const v1::AttemptStatus& status,
              Now now) {
  return job.state() == v1::JOB_STATE_RUNNING && status.ran_ms() <= kAgeMsMax &&
         status.ran_ms() > RunningMs(state, job, now) + kAgeSlackMs;
}

// Denies the status of an attempt that the node never had. Attempts that it had may be reported
// late.
void AddForeignStatus(const v1::JobRecord& job, const std::string& node,
                      const v1::AttemptStatus& status, Decision& decision) {
  bool is_foreign = status.attempt() >= job.next_attempt();
  for (const v1::Attempt& attempt : job.attempts()) {
    if (attempt.number() == status.attempt()) is_foreign = FindPart(attempt, node) == nullptr;
  }
  if (!is_foreign) return;
  decision.denials.push_back(
      {Denied::kStatus,
       absl::StrCat("the status of ", job.name(), " attempt ", status.attempt(), " from ",
                    common::Printable(node), " was ignored: it has no part of it")});
}

// The part that hosts the rendezvous holds its port, or another one is ready.
void AddReadiness(const v1::JobRecord& job, const v1::Attempt& attempt, const v1::NodePart& part,
                  const v1::AttemptStatus& status, Now now, std::vector<v1::Event>& facts) {
  if (status.master_port() != 0 && HostsRendezvous(part) && attempt.master_port() == 0) {
    v1::Event event = PartEvent(job, attempt, part.node(), now);
    event.mutable_master_port_held()->set_port(status.master_port());
    if (attempt.rendezvous() == v1::RENDEZVOUS_KIND_MUSTER &&
        status.rendezvous_secret().size() == common::kRendezvousSecretBytes) {
      event.mutable_master_port_held()->set_rendezvous_secret(status.rendezvous_secret());
    }
    if (status.has_preparation()) {
      *event.mutable_master_port_held()->mutable_preparation() =
          BoundPreparation(attempt, status.preparation());
    }
    facts.push_back(std::move(event));
  }
  if (!HostsRendezvous(part) && !part.ready() && status.ready()) {
    v1::Event event = PartEvent(job, attempt, part.node(), now);
    event.mutable_part_ready();
    if (status.has_preparation()) {
      *event.mutable_part_ready()->mutable_preparation() =
          BoundPreparation(attempt, status.preparation());
    }
    facts.push_back(std::move(event));
  }
}

// Only a change counts as progress: repeating the same report does not extend the launch timeout.
void AddProgress(const v1::JobRecord& job, const v1::Attempt& attempt, const v1::NodePart& part,
                 const v1::AttemptStatus& status, Now now, std::vector<v1::Event>& facts) {
  if (part.ready() || part.launched() || status.ready() || attempt.stopping()) return;
  const std::string doing = BoundDoing(status.preparation());
  if (doing.empty() || doing == part.preparation().doing()) return;
  v1::Event event = PartEvent(job, attempt, part.node(), now);
  event.set_skippable(true);
  event.mutable_part_preparing()->set_doing(doing);
  facts.push_back(std::move(event));
}

// The checkpoint to resume from did not reach the node. One that is damaged is never resumed from again, so the next
// attempt starts from an older one. One that another coordinator has is only out of reach: the job waits for it
// (scheduling/checkpoint_place.cc), because it must not lose steps that were saved.
void AddUnfetched(const ClusterState& state, const v1::JobRecord& job, const v1::Attempt& attempt,
                  const std::string& node, const v1::AttemptStatus& status, Now now,
                  Decision& decision) {
  if (!status.resume_damaged() || attempt.resume_step() < 0) return;
  const v1::Checkpoint* resumed = ResumedCheckpoint(job, attempt);
  if (resumed == nullptr || resumed->flagged_corrupt()) return;
  const std::string& head = state.settings.head;
  const std::string others = OtherHeads(*resumed, head);
  if (!others.empty() && resumed->absent_at() == head) return;
  v1::Event event = PartEvent(job, attempt, node, now);
  event.set_attempt(resumed->attempt());
  if (others.empty()) {
    event.mutable_checkpoint_flagged()->set_step(resumed->step());
    event.mutable_checkpoint_flagged()->set_why(Said(status.failure()));
  } else {
    event.set_skippable(true);
    event.mutable_checkpoint_absent()->set_step(resumed->step());
    event.mutable_checkpoint_absent()->set_at(head);
    event.mutable_checkpoint_absent()->set_held(others);
  }
  decision.facts.push_back(std::move(event));
}

// Facts from one attempt's status. Anything other than a live part of this incarnation is ignored.
void AddStatusFacts(const ClusterState& state, const std::string& node, uint64_t incarnation,
                    const v1::AttemptStatus& status, Now now, Decision& decision) {
  const auto found = state.jobs.find(status.job());
  const v1::Attempt* attempt = found == state.jobs.end() ? nullptr : LiveAttempt(found->second);
  const v1::NodePart* part = attempt == nullptr || attempt->number() != status.attempt()
                                 ? nullptr
                                 : FindLivePart(state, found->second, node);
  if (part == nullptr || part->ended() || part->incarnation() != incarnation) {
    if (found != state.jobs.end()) AddForeignStatus(found->second, node, status, decision);
    decision.commands.push_back(DismissCommand(node, status));
    return;
  }
  const v1::JobRecord& job = found->second;
  AddReadiness(job, *attempt, *part, status, now, decision.facts);
  AddProgress(job, *attempt, *part, status, now, decision.facts);
  if (!part->launched() && status.ranks_started() == part->local_world_size()) {
    v1::Event event = PartEvent(job, *attempt, node, now);
    event.mutable_part_launched();
    decision.facts.push_back(std::move(event));
  }
  const std::string checkpoint_error =
      common::Printable(status.checkpoint_error().substr(0, kCheckpointErrorBytesMax));
  if (!checkpoint_error.empty() && IsNewCheckpointError(*part, checkpoint_error)) {
    v1::Event event = PartEvent(job, *attempt, node, now);
    event.set_skippable(true);
    event.mutable_checkpoint_failed()->set_why(checkpoint_error);
    decision.facts.push_back(std::move(event));
  }
  // Once: a rank that loads another framework later changes nothing.
  if (status.has_versions() && !part->has_versions()) {
    v1::Event event = PartEvent(job, *attempt, node, now);
    event.set_skippable(true);
    *event.mutable_part_versions()->mutable_versions() = BoundVersions(status.versions());
    decision.facts.push_back(std::move(event));
  }
  AddUnfetched(state, job, *attempt, node, status, now, decision);
  if (IsNewAge(state, job, status, now)) {
    v1::Event event = PartEvent(job, *attempt, node, now);
    event.mutable_part_age()->set_ran_ms(status.ran_ms());
    decision.facts.push_back(std::move(event));
  }
  AddExits(job, *attempt, *part, status, now, decision.facts);
  if (status.phase() == v1::ATTEMPT_PHASE_ENDED && !status.checkpoints_pending()) {
    decision.facts.push_back(PartEnded(
        job, *attempt, node, status.how_ended().empty() ? "empty" : Said(status.how_ended()),
        Said(status.failure()), CauseOf(status), now));
    if (!part->ready() && status.preparation().ran_setup()) {
      *decision.facts.back().mutable_part_ended()->mutable_preparation() =
          BoundPreparation(*attempt, status.preparation());
    }
  }
}

// A part that the worker of a cleared node does not hold.
void AddMissingPart(const ClusterState& state, const v1::JobRecord& job, const v1::Attempt& attempt,
                    const v1::NodePart& part, const v1::NodeFacts& facts, Now now,
                    Decision& decision) {
  if (part.boot_id() != facts.boot_id()) {
    decision.facts.push_back(PartEnded(job, attempt, part.node(), "new boot",
                                       absl::StrCat(part.node(), " was rebooted"),
                                       v1::STOP_CAUSE_NODE_LOST, now));
  } else if (part.incarnation() != facts.incarnation()) {
    decision.facts.push_back(
        PartEnded(job, attempt, part.node(), "new incarnation",
                  absl::StrCat("the worker on ", part.node(), " came back without its state"),
                  v1::STOP_CAUSE_NODE_LOST, now));
  } else if (part.launched()) {
    decision.facts.push_back(
        PartEnded(job, attempt, part.node(), "no longer known to its worker",
                  absl::StrCat("the worker on ", part.node(), " no longer has its ranks"),
                  v1::STOP_CAUSE_SUPERVISOR_LOST, now));
  } else if (!HostsRendezvous(part) || attempt.master_port() == 0) {
    return;  // not started: its command is resent once the node is cleared
  } else if (attempt.parts_size() > 1 && AreReady(CountsOf(state, job))) {
    // Other nodes may be launching with the lost port, and all ranks of an attempt must see the
    // same world.
    decision.facts.push_back(
        PartEnded(job, attempt, part.node(), "never launched",
                  absl::StrCat("the port held on ", part.node(), " was lost with its worker"),
                  v1::STOP_CAUSE_LAUNCH_INTERRUPTED, now));
  } else {
    // The worker restarted between holding the port and launching, and no other node knows the
    // port: hold a new one.
    v1::Event event = PartEvent(job, attempt, part.node(), now);
    event.mutable_master_port_held()->set_port(0);
    decision.facts.push_back(std::move(event));
  }
}

using HeldAttempts = std::set<std::pair<uint64_t, uint32_t>>;

// The node is cleared: parts that its worker does not hold are over.
void AddMissingParts(const ClusterState& state, const v1::NodeFacts& facts,
                     const HeldAttempts& held, Now now, Decision& decision) {
  ForEachLivePart(state, facts.name(), [&](const auto& job, const auto& attempt, const auto& part) {
    const bool is_held =
        part.incarnation() == facts.incarnation() && held.contains({job.id(), attempt.number()});
    if (!is_held) AddMissingPart(state, job, attempt, part, facts, now, decision);
  });
}

// JudgeFacts bounds the facts of each node; this bounds their sum, which is part of every snapshot. A node that
// registers again with facts that have not grown is never refused.
absl::Status JudgeFactsOfAll(const ClusterState& state, const Node* known,
                             const v1::NodeFacts& facts) {
  const uint64_t before = known == nullptr ? 0 : known->record.facts().ByteSizeLong();
  const uint64_t bytes = facts.ByteSizeLong();
  const uint64_t others = state.node_facts_bytes - before;
  const uint64_t most = state.settings.node_facts_bytes_max;
  if (bytes <= before || others + bytes <= most) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kResourceExhausted,
      {.code = "JC1405",
       .what = absl::StrCat("what the other ", state.nodes.size() - (known == nullptr ? 0 : 1),
                            " nodes report of themselves has ", common::HumanBytes(others),
                            ", and node ", facts.name(), " reports ", common::HumanBytes(bytes),
                            "; the limit of all is ", common::HumanBytes(most)),
       .fix = "forget nodes that are gone with jobctl nodes rm, or describe fewer devices here "
              "(--devices)"});
}

absl::Status JudgeRegistration(const ClusterState& state, const v1::NodeFacts& facts, Now now) {
  if (absl::Status judged = JudgeProtocol("muster-worker", facts.version(), facts.protocol());
      !judged.ok()) {
    return judged;
  }
  if (facts.name().empty() || facts.name().size() > common::kNameBytesMax ||
      !common::IsCleanUtf8(facts.name())) {
    return common::MakeProblem(
        absl::StatusCode::kInvalidArgument,
        {.code = "JC1407",
         .what = absl::StrCat("the node name \"", common::Printable(facts.name()),
                              "\" is empty, too long or not printable text"),
         .fix = "use a --name of letters, digits and -"});
  }
  if (absl::Status sound = JudgeFacts(facts); !sound.ok()) return sound;
  const Node* known = FindNode(state, facts.name());
  if (absl::Status room = JudgeFactsOfAll(state, known, facts); !room.ok()) return room;
  if (known == nullptr) {
    if (state.nodes.size() < common::kNodesMax) return absl::OkStatus();
    return common::MakeProblem(
        absl::StatusCode::kResourceExhausted,
        {.code = "JC1405",
         .what = absl::StrCat(common::kNodesMax, " nodes are registered, which is the limit")});
  }
  const bool fresh = now.mono_ms - known->last_contact_mono_ms < 2 * state.settings.heartbeat_ms;
  const v1::NodeFacts& old = known->record.facts();
  if (known->record.connected() && fresh && old.process() != facts.process()) {
    return common::MakeProblem(
        absl::StatusCode::kAlreadyExists,
        {.code = "JC1404",
         .what = absl::StrCat("another worker named ", facts.name(), " is connected (",
                              old.hostname(), ", ", old.advertise(), ")"),
         .fix = "start this one with another --name and --state-dir, or stop the other"});
  }
  return JudgeMachine(state, *known, facts, now);
}

// Different hardware under a known identity: a person has to look at it before it gets new work.
void AddDeviceChange(const Node* known, const v1::NodeFacts& facts, Now now, Decision& decision) {
  if (known == nullptr || known->record.draining()) return;
  const std::string change = DescribeDeviceChange(known->record.facts(), facts);
  if (change.empty()) return;
  v1::Event drained =
      NodeChange(facts.name(), v1::NODE_STATE_ALIVE, common::Printable(change), now);
  drained.mutable_node_state_changed()->set_set_drain(true);
  drained.mutable_node_state_changed()->set_draining(true);
  decision.facts.push_back(std::move(drained));
}

// Jobs whose history has the silence also get its end.
void AddSilenceOver(const ClusterState& state, const Node* node, Now now,
                    std::vector<v1::Event>& facts) {
  if (node == nullptr || node->record.state() == v1::NODE_STATE_ALIVE) return;
  AddSilence(state, node->record.facts().name(), v1::NODE_STATE_ALIVE, "", now, facts);
}

// Parts that were placed there and that the worker no longer holds are over; outstanding commands
// are resent.
void AddCleared(const ClusterState& state, const Node& node, const v1::Cleared& cleared, Now now,
                Decision& decision) {
  HeldAttempts held;
  for (const v1::Cleared::Held& one : cleared.held()) held.insert({one.job(), one.attempt()});
  AddMissingParts(state, node.record.facts(), held, now, decision);
  v1::Event contact = Contact(node.record.facts().name(), node.session, true, now);
  contact.mutable_node_contact()->set_cleared(true);
  decision.facts.push_back(std::move(contact));
}

}  // namespace

Decision DecideOn(const ClusterState& state, const WorkerRegisteredInput& input, Now now) {
  Decision decision;
  const v1::NodeFacts& facts = input.message.facts();
  decision.reply.status = JudgeRegistration(state, facts, now);
  if (!decision.reply.status.ok()) return decision;
  const Node* known = FindNode(state, facts.name());
  const bool provisional = NeedsClearing(known, input.message);
  // Ended parts come first, so that the contact resends commands only for the remaining parts.
  if (!provisional) {
    HeldAttempts held;
    for (const v1::AttemptStatus& status : input.message.attempts()) {
      held.insert({status.job(), status.attempt()});
    }
    AddMissingParts(state, facts, held, now, decision);
  }
  for (const v1::AttemptStatus& status : input.message.attempts()) {
    AddStatusFacts(state, facts.name(), facts.incarnation(), status, now, decision);
  }
  AddSilenceOver(state, known, now, decision.facts);
  v1::Event registered = NodeEvent(facts.name(), now);
  *registered.mutable_node_registered()->mutable_facts() = facts;
  decision.facts.push_back(std::move(registered));
  AddDeviceChange(known, facts, now, decision);
  v1::Event contact = Contact(facts.name(), input.session, true, now);
  contact.mutable_node_contact()->set_cleared(!provisional);
  decision.facts.push_back(std::move(contact));
  if (provisional) {
    for (Command& stop : StopCommands(state, facts.name())) {
      decision.commands.push_back(std::move(stop));
    }
  }
  const PartSender sender{facts.name(), facts.incarnation()};
  for (int at = 0; at < input.message.checkpoint_parts_size(); ++at) {
    const bool is_checked = static_cast<size_t>(at) < input.part_problems.size();
    AddCheckpointPart(state, sender, input.message.checkpoint_parts(at),
                      is_checked ? input.part_problems[at] : "", now, decision);
  }
  Command registered_reply{facts.name(), {}};
  registered_reply.message.mutable_registered()->set_heartbeat_ms(state.settings.heartbeat_ms);
  registered_reply.message.mutable_registered()->set_suspect_after_ms(
      state.settings.suspect_after_ms);
  registered_reply.message.mutable_registered()->set_cluster_id(state.settings.cluster_id);
  registered_reply.message.mutable_registered()->set_clear(provisional);
  decision.commands.insert(decision.commands.begin(), std::move(registered_reply));
  return decision;
}

Decision DecideOn(const ClusterState& state, const WorkerSaidInput& input, Now now) {
  Decision decision;
  const Node* node = FindNode(state, input.node);
  if (node == nullptr || node->session != input.session) return decision;  // from an older stream
  decision.facts.push_back(Contact(input.node, input.session, true, now));
  if (node->record.state() != v1::NODE_STATE_ALIVE) {
    decision.facts.push_back(NodeChange(input.node, v1::NODE_STATE_ALIVE, "contact restored", now));
    AddSilenceOver(state, node, now, decision.facts);
  }
  if (input.message.has_heartbeat()) {
    Command reply{input.node, {}};
    reply.message.mutable_heartbeat_reply()->set_number(input.message.heartbeat().number());
    reply.message.mutable_heartbeat_reply()->set_wall_ms(now.wall_ms);
    *decision.facts.front().mutable_node_contact()->mutable_health() =
        input.message.heartbeat().health();
    decision.commands.push_back(std::move(reply));
  } else if (input.message.has_attempt_status()) {
    AddStatusFacts(state, input.node, node->record.facts().incarnation(),
                   input.message.attempt_status(), now, decision);
  } else if (input.message.has_checkpoint_part()) {
    AddCheckpointPart(state, {input.node, node->record.facts().incarnation()},
                      input.message.checkpoint_part(), input.part_problem, now, decision);
  } else if (input.message.has_cleared() && !node->cleared) {
    AddCleared(state, *node, input.message.cleared(), now, decision);
  }
  return decision;
}

Decision DecideOn(const ClusterState& state, const WorkerGoneInput& input, Now now) {
  Decision decision;
  const Node* node = FindNode(state, input.node);
  if (node == nullptr || node->session != input.session) return decision;
  decision.facts.push_back(Contact(input.node, 0, false, now));
  return decision;
}

}  // namespace muster::coordinator
