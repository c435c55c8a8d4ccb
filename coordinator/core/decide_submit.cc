#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job/shape.h"
#include "common/job/validate.h"
#include "common/problem.h"
#include "common/text.h"
#include "coordinator/core/decide.h"
#include "coordinator/core/holdings.h"
#include "coordinator/core/limit_facts.h"
#include "coordinator/core/owner.h"
#include "coordinator/core/placement.h"
#include "coordinator/core/scheduler.h"
#include "coordinator/core/spec_hash.h"
#include "coordinator/core/views.h"
#include "coordinator/core/waiting.h"

namespace muster::coordinator {
namespace {

v1::Event SubmittedEvent(const ClusterState& state, const SubmitInput& input, uint64_t hash,
                         Now now) {
  v1::Event event;
  event.set_job(state.next_job_id);
  event.set_at_ms(now.wall_ms);
  v1::JobRecord* record = event.mutable_job_submitted()->mutable_record();
  record->set_id(state.next_job_id);
  record->set_name(JobName(state.next_job_id, input.request.spec().name()));
  *record->mutable_spec() = input.request.spec();
  record->set_owner(input.caller.principal);
  record->set_owner_id(input.caller.user_id);
  record->set_account(input.account);
  record->set_idempotency_key(input.request.idempotency_key());
  record->set_spec_hash(hash);
  record->set_state(v1::JOB_STATE_QUEUED);
  record->set_submitted_ms(now.wall_ms);
  record->set_state_ms(now.wall_ms);
  record->set_attached(input.attached);
  record->set_queue_anyway(input.request.queue_anyway());
  record->set_reason(kBehindOthers);
  if (input.resume_from.has_value()) {
    v1::Checkpoint* inherited = record->add_checkpoints();
    *inherited = *input.resume_from;
    // Attempt 0 sorts before anything that this job saves: attempts of the other job do not count
    // here.
    inherited->set_attempt(0);
  }
  return event;
}

// Only of what a key may be asked for again.
uint64_t SpecHash(const SubmitInput& input) {
  if (input.request.idempotency_key().empty()) return 0;
  return input.sent.has_value() ? input.sent->keyed : HashSpec(input.request.spec());
}

// Whether a job with this hash, of whatever release and key, has the spec that was sent.
bool IsOfThatSpec(uint64_t known, const SubmitInput& input, uint64_t hash) {
  if (known == hash) return true;
  if (!input.sent.has_value()) return known == HashSpecAs020(input.request.spec());
  return known == input.sent->plain || known == input.sent->as_020;
}

// The reply for a known key, or nothing.
std::optional<Reply> AnswerKnownKey(const ClusterState& state, const SubmitInput& input,
                                    uint64_t hash) {
  const std::string& key = input.request.idempotency_key();
  if (key.empty()) return std::nullopt;
  const auto known = state.keys.find(KeyOf(OwnerKey(input.caller), key));
  if (known == state.keys.end()) return std::nullopt;
  Reply reply;
  if (!IsOfThatSpec(known->second.spec_hash, input, hash)) {
    reply.status =
        common::MakeProblem(absl::StatusCode::kAlreadyExists,
                            {.code = "JC1205",
                             .what = absl::StrCat("the idempotency key \"", common::Printable(key),
                                                  "\" belongs to job ", known->second.job,
                                                  ", which has a different spec"),
                             .fix = "use a new key for a new job"});
    return reply;
  }
  reply.submit.set_job(known->second.job);
  reply.submit.set_existed(true);
  if (const auto job = state.jobs.find(known->second.job); job != state.jobs.end()) {
    reply.submit.set_name(job->second.name());
  }
  return reply;
}

absl::Status NeverStatus(const ClusterState& state, const Demand& demand,
                         const std::string& never) {
  const v1::Shape& shape = demand.shape;
  const std::string what =
      absl::StrCat("the job needs ", job::DescribeDemand(shape, ResolveKind(state, shape.device())),
                   "; ", never);
  if (NeverForItsPreparation(state, demand)) {
    const NodeThatCannotPrepare first = NodesThatCannotPrepare(state, demand).front();
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1402",
         .what = what,
         .fix = absl::StrCat("on ", first.node, ": ", first.fix,
                             "; or use --queue-anyway to wait for other nodes")});
  }
  if (!NeverForItsLimits(state, demand)) {
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1402",
         .what = what,
         .fix = "ask for less, or use --queue-anyway to wait for more nodes"});
  }
  const NodeWithoutLimits first = NodesWithoutLimits(state, shape.limits()).front();
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1413",
       .what = what,
       .fix = absl::StrCat("on ", first.node, ": ", first.fix,
                           "; or omit the limit, or use --queue-anyway to wait for other nodes")});
}

}  // namespace

Decision DecideSubmit(const ClusterState& state, const SubmitInput& input, Now now) {
  Decision decision;
  Reply& reply = decision.reply;
  const v1::JobSpec& spec = input.request.spec();
  reply.status = job::Validate(spec);
  if (!reply.status.ok()) return decision;
  const uint64_t hash = SpecHash(input);
  if (std::optional<Reply> known = AnswerKnownKey(state, input, hash)) {
    reply = *std::move(known);
    return decision;
  }
  const Demand demand = DemandOf(spec);
  if (const std::string never = NeverFits(state, demand);
      !never.empty() && !input.request.queue_anyway()) {
    reply.status = NeverStatus(state, demand, never);
    return decision;
  }
  reply.status = MayHold(state, input);
  if (!reply.status.ok()) return decision;
  decision.facts.push_back(SubmittedEvent(state, input, hash, now));
  const v1::JobRecord& record = decision.facts.back().job_submitted().record();
  if (input.request.dry_run()) {
    reply.submit.set_reason(BlockedReason(state, record));
    if (const auto plan = PlanAttempt(state, record, now)) {
      reply.submit.set_layout(DescribeAttempt(*plan));
    }
    decision.facts.clear();
    return decision;
  }
  reply.submit.set_job(record.id());
  reply.submit.set_name(record.name());
  return decision;
}

}  // namespace muster::coordinator
