#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/limits.h"
#include "common/problem.h"
#include "common/text.h"
#include "coordinator/core/decide.h"
#include "coordinator/core/placement.h"
#include "coordinator/core/scheduler.h"
#include "coordinator/core/views.h"
#include "coordinator/core/waiting.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace muster::coordinator {
namespace {

constexpr uint32_t kRestartsMax = 10'000;
constexpr uint32_t kGraceMsMax = 24 * 3600 * 1000;

absl::Status Invalid(common::Problem problem) {
  return common::MakeProblem(absl::StatusCode::kInvalidArgument, std::move(problem));
}

absl::Status ValidateShape(const v1::Shape& shape) {
  if (shape.processes() > 0 && shape.per_node() > 0) {
    return Invalid({.code = "JC1104",
                    .what = absl::StrCat("the job asks for ", shape.processes(),
                                         " processes and for ", shape.per_node(), " per node"),
                    .fix = "give one of the two"});
  }
  if (shape.max_nodes() != 0 && shape.max_nodes() < shape.min_nodes()) {
    return Invalid({.code = "JC1104",
                    .what = absl::StrCat("nodes ", shape.min_nodes(), ":", shape.max_nodes(),
                                         " is an empty range"),
                    .fix = "MIN:MAX with MIN ≤ MAX"});
  }
  if (shape.min_nodes() > common::kNodesMax || shape.max_nodes() > common::kNodesMax) {
    return Invalid({.code = "JC1104",
                    .what = absl::StrCat(std::max(shape.min_nodes(), shape.max_nodes()),
                                         " nodes are more than the limit of ", common::kNodesMax),
                    .fix = "ask for fewer"});
  }
  const uint64_t nodes = std::max<uint64_t>({shape.min_nodes(), shape.max_nodes(), 1});
  const uint64_t most = shape.per_node() > 0 ? nodes * shape.per_node() : shape.processes();
  if (most == 0) {
    return Invalid(
        {.code = "JC1104", .what = "the job asks for 0 processes", .fix = "ask for at least 1"});
  }
  if (most > common::kRanksMax) {
    return Invalid(
        {.code = "JC1104",
         .what = absl::StrCat(most, " processes are more than the limit of ", common::kRanksMax),
         .fix = "ask for fewer"});
  }
  if (shape.per_node() == 0 && shape.min_nodes() > shape.processes()) {
    return Invalid({.code = "JC1104",
                    .what = absl::StrCat(shape.processes(), " processes cannot fill ",
                                         shape.min_nodes(), " nodes"),
                    .fix = "ask for at least one process per node"});
  }
  if (shape.device().count_per_rank() > 1024) {
    return Invalid({.code = "JC1104",
                    .what = absl::StrCat(shape.device().count_per_rank(),
                                         " devices per process are more than the limit of 1024"),
                    .fix = "ask for fewer"});
  }
  const std::string& kind = shape.device().kind();
  if (!kind.empty() && kind != "cpu" && kind != "gpu" && kind != "npu") {
    return Invalid(
        {.code = "JC1104",
         .what = absl::StrCat("device kind \"", common::Printable(kind), "\" is not known"),
         .fix = "use cpu, gpu or npu"});
  }
  return absl::OkStatus();
}

bool IsVariableName(const std::string& name) {
  return !name.empty() && name.find('=') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

absl::Status ValidateTexts(const v1::JobSpec& spec) {
  if (spec.command().empty() || spec.command(0).empty()) {
    return Invalid(
        {.code = "JC1105", .what = "the job has no command", .fix = "give one after --"});
  }
  for (const std::string& argument : spec.command()) {
    if (std::memchr(argument.data(), '\0', argument.size()) != nullptr) {
      return Invalid({.code = "JC1105",
                      .what = "an argument of the command holds a zero byte",
                      .fix = "remove it"});
    }
  }
  if (spec.name().size() > common::kNameBytesMax) {
    return Invalid({.code = "JC1103",
                    .what = absl::StrCat("the name has ", spec.name().size(),
                                         " bytes, the limit is ", common::kNameBytesMax),
                    .fix = "shorten it"});
  }
  // Paths are built from it: directories of copied logs, of pulled checkpoints.
  if (!spec.name().empty() && !common::IsPathName(spec.name())) {
    return Invalid({.code = "JC1103",
                    .what = absl::StrCat(
                        "the name \"", common::Printable(spec.name()),
                        "\" has a / or an invisible character, begins with a dot or is not UTF-8"),
                    .fix = "use letters, digits, - and _"});
  }
  if (!spec.workdir().empty() && spec.workdir()[0] != '/') {
    return Invalid(
        {.code = "JC1107",
         .what = absl::StrCat("workdir \"", common::Printable(spec.workdir()), "\" is relative"),
         .fix = "give an absolute path"});
  }
  for (const auto& [name, value] : spec.env()) {
    if (!IsVariableName(name) || value.find('\0') != std::string::npos) {
      return Invalid({.code = "JC1106",
                      .what = absl::StrCat("environment variable \"", common::Printable(name),
                                           "\" cannot be set"),
                      .fix = "a name without = and no zero bytes"});
    }
  }
  return absl::OkStatus();
}

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
    // Older than anything that this job saves: attempts of the other job do not count here.
    inherited->set_attempt(0);
  }
  return event;
}

// The answer for a key that was seen before, or nothing.
std::optional<Reply> AnswerKnownKey(const ClusterState& state, const SubmitInput& input,
                                    uint64_t hash) {
  const std::string& key = input.request.idempotency_key();
  if (key.empty()) return std::nullopt;
  const auto known = state.keys.find(KeyOf(input.caller.principal, key));
  if (known == state.keys.end()) return std::nullopt;
  Reply reply;
  if (known->second.spec_hash != hash) {
    reply.status = common::MakeProblem(
        absl::StatusCode::kAlreadyExists,
        {.code = "JC1205",
         .what = absl::StrCat("the idempotency key \"", common::Printable(key),
                              "\" belongs to job ", known->second.job, ", which has another spec"),
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

}  // namespace

uint64_t HashSpec(const v1::JobSpec& spec) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    spec.SerializeToCodedStream(&coded);
  }
  // FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/
  uint64_t hash = 14695981039346656037ull;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211ull;
  return hash;
}

absl::Status ValidateSpec(const v1::JobSpec& spec) {
  if (const size_t size = spec.ByteSizeLong(); size > common::kSpecBytesMax) {
    return Invalid({.code = "JC1102",
                    .what = absl::StrCat("the job's spec has ", size, " bytes, the limit is ",
                                         common::kSpecBytesMax),
                    .fix = "submit with --clean-env, or put large inputs into files"});
  }
  if (absl::Status texts = ValidateTexts(spec); !texts.ok()) return texts;
  if (absl::Status shape = ValidateShape(spec.shape()); !shape.ok()) return shape;
  if (spec.restarts() > kRestartsMax || spec.node_loss_restarts() > kRestartsMax) {
    return Invalid({.code = "JC1108",
                    .what = absl::StrCat("more than ", kRestartsMax, " restarts"),
                    .fix = "ask for fewer"});
  }
  if (spec.grace_ms() > kGraceMsMax) {
    return Invalid({.code = "JC1108",
                    .what = absl::StrCat("a grace of ", spec.grace_ms(), " ms is more than a day"),
                    .fix = "shorten it"});
  }
  return absl::OkStatus();
}

Decision DecideSubmit(const ClusterState& state, const SubmitInput& input, Now now) {
  Decision decision;
  Reply& reply = decision.reply;
  const v1::JobSpec& spec = input.request.spec();
  reply.status = ValidateSpec(spec);
  if (!reply.status.ok()) return decision;
  const uint64_t hash = HashSpec(spec);
  if (std::optional<Reply> known = AnswerKnownKey(state, input, hash)) {
    reply = *std::move(known);
    return decision;
  }
  if (const std::string never = NeverFits(state, spec.shape());
      !never.empty() && !input.request.queue_anyway()) {
    reply.status = common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1402",
         .what = absl::StrCat(
             "the job needs ",
             DescribeShape(spec.shape(), ResolveKind(state, spec.shape().device())), "; ", never),
         .fix = "ask for less, or --queue-anyway to wait for more nodes"});
    return decision;
  }
  if (state.jobs.size() >= state.settings.live_jobs_max) {
    reply.status = common::MakeProblem(
        absl::StatusCode::kResourceExhausted,
        {.code = "JC1209",
         .what = absl::StrCat(state.settings.live_jobs_max,
                              " jobs are queued or running, which is the limit"),
         .fix = "try again later"});
    return decision;
  }
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
