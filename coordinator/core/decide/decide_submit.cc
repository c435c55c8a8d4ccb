#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job/validate.h"
#include "common/problem.h"
#include "common/text/text.h"
#include "coordinator/core/decide/decide.h"
#include "coordinator/core/scheduling/pass.h"
#include "coordinator/core/state/holdings.h"
#include "coordinator/core/state/owner.h"
#include "coordinator/core/state/spec_hash.h"
#include "coordinator/core/views/views.h"

namespace muster::coordinator {
namespace {

// Computed only if there is an idempotency key to look it up by.
uint64_t SpecHash(const SubmitInput& input) {
  if (input.request.idempotency_key().empty()) return 0;
  return input.sent.has_value() ? input.sent->keyed : HashSpec(input.request.spec());
}

// Whether a job with this hash has the spec that was sent, whatever release computed it, with or
// without the cluster's key.
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

absl::Status NeverStatus(const Blocker& never) {
  return common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                             {.code = RowOf(never.reason).code,
                              .what = absl::StrCat("the job ", never.text),
                              .fix = FixOf(never)});
}

}  // namespace

v1::JobRecord SubmittedRecord(const SchedulingState& state, const SubmitInput& input, Now now) {
  v1::JobRecord record;
  record.set_id(state.next_job_id);
  record.set_name(JobName(state.next_job_id, input.request.spec().name()));
  *record.mutable_spec() = input.request.spec();
  record.set_owner(input.caller.principal);
  record.set_owner_id(input.caller.user_id);
  record.set_account(input.account);
  record.set_idempotency_key(input.request.idempotency_key());
  record.set_state(v1::JOB_STATE_QUEUED);
  record.set_submitted_ms(now.wall_ms);
  record.set_state_ms(now.wall_ms);
  record.set_attached(input.attached);
  record.set_queue_anyway(input.request.queue_anyway());
  record.set_reason(RowOf(Reason::kBehindOthers).text);
  if (input.resume_from.has_value()) {
    v1::Checkpoint* inherited = record.add_checkpoints();
    *inherited = *input.resume_from;
    // Attempt 0 sorts before anything that this job saves: attempts of the other job do not count
    // here.
    inherited->set_attempt(0);
  }
  return record;
}

Decision DecideOn(const ClusterState& state, const SubmitInput& input, Now now) {
  Decision decision;
  Reply& reply = decision.reply;
  const v1::JobSpec& spec = input.request.spec();
  reply.status = job::Validate(spec);
  if (!reply.status.ok()) return decision;
  reply.status = CheckCeiling(state, ProjectOf(spec), spec.priority());
  if (!reply.status.ok()) return decision;
  const uint64_t hash = SpecHash(input);
  if (std::optional<Reply> known = AnswerKnownKey(state, input, hash)) {
    reply = *std::move(known);
    return decision;
  }
  v1::Event submitted;
  submitted.set_job(state.next_job_id);
  submitted.set_at_ms(now.wall_ms);
  v1::JobRecord& record = *submitted.mutable_job_submitted()->mutable_record();
  record = SubmittedRecord(state, input, now);
  record.set_spec_hash(hash);
  if (!input.request.queue_anyway()) {
    if (const std::optional<Blocker> never = WhyNever(state, record, now)) {
      reply.status = NeverStatus(*never);
      return decision;
    }
  }
  reply.status = MayHold(state, input);
  if (!reply.status.ok()) return decision;
  if (input.request.dry_run()) {
    Asides found;
    const Verdict verdict = Pass(state, found, now).Judge(record);
    if (verdict.start.has_value()) {
      reply.submit.set_layout(DescribeAttempt(*verdict.start));
    } else {
      reply.submit.set_reason(verdict.blockers.front().text);
    }
    return decision;
  }
  reply.submit.set_job(record.id());
  reply.submit.set_name(record.name());
  decision.facts.push_back(std::move(submitted));
  return decision;
}

}  // namespace muster::coordinator
