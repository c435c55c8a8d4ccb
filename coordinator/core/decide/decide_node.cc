// What a person may do to a node: drain it, declare it dead, forget it.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/problem.h"
#include "common/text/text.h"
#include "coordinator/core/decide/decide.h"
#include "coordinator/core/outcome/node_events.h"

namespace muster::coordinator {
namespace {

// The reply about one node; `message`, if set, replaces the one for the request.
Decision Answer(const std::string& node, const std::string& message = "") {
  Decision decision;
  v1::BulkResult& result = decision.reply.results.emplace_back();
  result.set_subject(node);
  result.set_message(message);
  return decision;
}

Decision Refusal(const std::string& node, absl::StatusCode code, common::Problem problem) {
  Decision decision = Answer(node);
  SetStatus(common::MakeProblem(code, std::move(problem)), &decision.reply.results.back());
  return decision;
}

Decision NoSuchNode(const std::string& name) {
  return Refusal(name, absl::StatusCode::kNotFound,
                 {.code = "JC1401",
                  .what = absl::StrCat("there is no node named ", name),
                  .fix = "jobctl nodes ls"});
}

// A suspect node is silent, even if its connection still looks open.
bool IsHeard(const Node& node) {
  return node.record.connected() && node.record.state() == v1::NODE_STATE_ALIVE;
}

}  // namespace

Decision DecideOn(const ClusterState& state, const DrainInput& input, Now now) {
  const Node* node = FindNode(state, input.node);
  if (node == nullptr) return NoSuchNode(input.node);
  const bool as_before = node->record.draining() == input.drain;
  if (const absl::Status may = CheckNotice(input.notice_ms); !may.ok()) {
    Decision refused = Answer(input.node);
    SetStatus(may, &refused.reply.results.back());
    return refused;
  }
  if (as_before && !input.evict && (!input.drain || input.reason.empty())) {
    return Answer(input.node, input.drain ? "is already draining" : "is not drained");
  }
  Decision decision = Answer(input.node);
  if (!input.drain) AddEvictionsTakenBack(state, input, now, decision);
  if (input.drain && input.evict) {
    const size_t asked = AddEvictions(state, input, now, decision);
    decision.reply.results.back().set_message(
        absl::StrCat("gets no new jobs; ",
                     asked == 0 ? "no job runs there"
                                : absl::StrCat(common::Counted(asked, "job"), " asked to leave")));
    if (as_before && input.reason.empty()) return decision;
  }
  v1::Event event = NodeChange(input.node, node->record.state(), input.reason, now);
  event.mutable_node_state_changed()->set_set_drain(true);
  event.mutable_node_state_changed()->set_draining(input.drain);
  decision.facts.push_back(std::move(event));
  return decision;
}

Decision DecideOn(const ClusterState& state, const DeclareDeadInput& input, Now now) {
  const Node* node = FindNode(state, input.node);
  if (node == nullptr) return NoSuchNode(input.node);
  if (IsHeard(*node)) {
    return Refusal(input.node, absl::StatusCode::kFailedPrecondition,
                   {.code = "JC1403",
                    .what = absl::StrCat(input.node, " is connected, so it is not dead"),
                    .fix = absl::StrCat("jobctl nodes drain ", input.node)});
  }
  Decision decision = Answer(input.node);
  const std::string reason =
      absl::StrCat("declared dead by ", input.caller.principal,
                   input.reason.empty() ? "" : absl::StrCat(": ", input.reason));
  decision.facts.push_back(NodeChange(input.node, v1::NODE_STATE_LOST, reason, now));
  ForEachLivePart(state, input.node, [&](const auto& job, const auto& attempt, const auto&) {
    decision.facts.push_back(PartEnded(job, attempt, input.node, "declared dead",
                                       absl::StrCat(input.node, " was ", reason),
                                       v1::STOP_CAUSE_NODE_LOST, now));
  });
  return decision;
}

Decision DecideOn(const ClusterState& state, const RemoveNodeInput& input, Now now) {
  const Node* node = FindNode(state, input.node);
  if (node == nullptr) return NoSuchNode(input.node);
  if (IsHeard(*node)) {
    return Refusal(input.node, absl::StatusCode::kFailedPrecondition,
                   {.code = "JC1412",
                    .what = absl::StrCat(input.node, " is connected and would register again"),
                    .fix = "stop its muster-worker first"});
  }
  std::string job_there;
  ForEachLivePart(state, input.node,
                  [&](const auto& job, const auto&, const auto&) { job_there = job.name(); });
  if (!job_there.empty()) {
    return Refusal(
        input.node, absl::StatusCode::kFailedPrecondition,
        {.code = "JC1412",
         .what = absl::StrCat("ranks of ", job_there, " may still be running on ", input.node),
         .fix =
             absl::StrCat("jobctl nodes declare-dead ", input.node,
                          " if that machine is off; otherwise wait until they count as stopped")});
  }
  Decision decision = Answer(input.node);
  v1::Event removed = NodeEvent(input.node, now);
  removed.mutable_node_removed()->set_by(input.caller.principal);
  removed.mutable_node_removed()->set_reason(input.reason);
  decision.facts.push_back(std::move(removed));
  return decision;
}

}  // namespace muster::coordinator
