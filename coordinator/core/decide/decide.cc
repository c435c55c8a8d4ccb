#include "coordinator/core/decide/decide.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/job/validate.h"
#include "common/outputs.h"
#include "common/problem.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "coordinator/core/decide/commands.h"
#include "coordinator/core/decide/notices.h"
#include "coordinator/core/outcome/checkpoint_rules.h"

namespace muster::coordinator {

v1::BulkResult ResultFor(uint64_t id, const v1::JobRecord* job) {
  v1::BulkResult result;
  result.set_job(id);
  if (job != nullptr) result.set_name(job->name());
  return result;
}

const v1::JobRecord* FindJob(const ClusterState& state, uint64_t id) {
  const auto found = state.jobs.find(id);
  return found == state.jobs.end() ? nullptr : &found->second;
}

absl::Status CheckCeiling(const ClusterState& state, const std::string& project, int32_t priority) {
  const std::optional<int32_t> most = MaxPriorityOf(state.projects, project);
  if (priority <= most.value_or(priority)) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kPermissionDenied,
      {.code = "JC1340",
       .what = absl::StrCat("priority ", priority, " is above the highest of project ", project,
                            ", which is ", *most),
       .fix = absl::StrCat("use --priority ", *most,
                           " or less, or ask an operator: jobctl project "
                           "quota ",
                           project, " --max-priority ", priority)});
}

v1::Event LiveJobEvent(const v1::JobRecord& job, Now now) {
  v1::Event event;
  event.set_job(job.id());
  event.set_at_ms(now.wall_ms);
  if (const v1::Attempt* attempt = LiveAttempt(job)) event.set_attempt(attempt->number());
  return event;
}

v1::BulkResult NotLive(uint64_t id) {
  v1::BulkResult result = ResultFor(id, nullptr);
  SetStatus(common::MakeProblem(
                absl::StatusCode::kFailedPrecondition,
                {.code = "JC1203",
                 .what = absl::StrCat("job ", id, " is over"),
                 .fix = absl::StrCat("jobctl rerun ", id, " starts a new job with the same spec")}),
            &result);
  return result;
}

namespace {

Decision DecideOn(const ClusterState& state, const CancelInput& input, Now now) {
  Decision decision;
  if (input.has_grace && input.grace_ms > job::kGraceMs.most) {
    decision.reply.status =
        common::MakeProblem(absl::StatusCode::kInvalidArgument,
                            {.code = "JC1004",
                             .what = absl::StrCat("the grace of a cancellation is 0 to ",
                                                  common::HumanDuration(job::kGraceMs.most),
                                                  ", not ", input.grace_ms, " ms"),
                             .fix = "give a shorter --grace"});
    return decision;
  }
  for (const uint64_t id : input.jobs) {
    const v1::JobRecord* job = FindJob(state, id);
    if (job == nullptr) {
      decision.reply.results.push_back(NotLive(id));
      continue;
    }
    v1::BulkResult result = ResultFor(id, job);
    // It was held since its client came.
    if (input.cause == v1::STOP_CAUSE_CLIENT_GONE && !job->attached()) continue;
    const v1::Attempt* attempt = LiveAttempt(*job);
    const uint32_t grace = input.has_grace ? input.grace_ms : GraceMsOf(state, job->spec());
    // A second cancel counts if it shortens the grace, as when Ctrl-C is pressed twice.
    const bool again = job->cancel_requested();
    if (again && (attempt == nullptr || grace >= attempt->stop_grace_ms())) {
      // Resend it to the nodes: one may not have received it.
      result.set_message("is already being cancelled");
      for (Command& command : StopCommandsOf(state, *job)) {
        decision.commands.push_back(std::move(command));
      }
    } else {
      v1::Event event = LiveJobEvent(*job, now);
      v1::StopRequested* stop = event.mutable_stop_requested();
      stop->set_cause(input.cause);
      stop->set_reason(input.reason.empty() ? absl::StrCat("cancelled by ", input.caller.principal)
                                            : input.reason);
      stop->set_grace_ms(grace);
      stop->set_cancel_job(true);
      stop->set_no_ranks(attempt == nullptr);
      decision.facts.push_back(std::move(event));
    }
    decision.reply.results.push_back(std::move(result));
  }
  return decision;
}

Decision DecideOn(const ClusterState& state, const SignalInput& input, Now now) {
  Decision decision;
  if (!IsSignal(input.signal)) {
    decision.reply.status = common::MakeProblem(
        absl::StatusCode::kInvalidArgument,
        {.code = "JC1004",
         .what =
             absl::StrCat(input.signal, " is not a signal: they are numbered 1 to ", kSignalsMax),
         .fix = "name one, such as 10 (SIGUSR1) or 15 (SIGTERM)"});
    return decision;
  }
  const v1::JobRecord* job = FindJob(state, input.job);
  if (job == nullptr) {
    decision.reply.results.push_back(NotLive(input.job));
    return decision;
  }
  v1::BulkResult result = ResultFor(input.job, job);
  if (LiveAttempt(*job) == nullptr) {
    SetStatus(common::MakeProblem(
                  absl::StatusCode::kFailedPrecondition,
                  {.code = "JC1208",
                   .what = absl::StrCat("job ", job->name(), " is ", StateName(job->state()),
                                        ": no rank is running to receive a signal"),
                   .fix = absl::StrCat("jobctl why ", job->name())}),
              &result);
  } else {
    v1::Event event = LiveJobEvent(*job, now);
    event.mutable_signal_sent()->set_signal(input.signal);
    event.mutable_signal_sent()->set_by(input.caller.principal);
    decision.facts.push_back(std::move(event));
  }
  decision.reply.results.push_back(std::move(result));
  return decision;
}

absl::Status CheckSet(const ClusterState& state, const v1::JobRecord& job, const SetInput& input) {
  const std::string& project = input.project.value_or(ProjectOf(job));
  // What it has would be counted for another one from one moment to the next.
  if (project != ProjectOf(job) && LiveAttempt(job) != nullptr) {
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1214",
         .what = absl::StrCat("job ", job.name(), " is ", StateName(job.state()), " in project ",
                              ProjectOf(job)),
         .fix = absl::StrCat("jobctl stop ", job.name(), ", then set it and release it")});
  }
  if (project != ProjectOf(job) && job.spec().has_code()) {
    return common::MakeProblem(
        absl::StatusCode::kFailedPrecondition,
        {.code = "JC1214",
         .what = absl::StrCat("the code of job ", job.name(), " was sent for project ",
                              ProjectOf(job), " alone"),
         .fix = absl::StrCat("jobctl cancel ", job.name(), ", and submit it with --project ",
                             common::Printable(project))});
  }
  if (!input.priority.has_value() && project == ProjectOf(job)) return absl::OkStatus();
  return CheckCeiling(state, project, input.priority.value_or(job.spec().priority()));
}

Decision DecideOn(const ClusterState& state, const SetInput& input, Now now) {
  Decision decision;
  if (!input.priority.has_value() && !input.estimate_ms.has_value() && !input.urgent.has_value() &&
      !input.project.has_value()) {
    decision.reply.status = common::MakeProblem(absl::StatusCode::kInvalidArgument,
                                                {.code = "JC1004",
                                                 .what = "there is nothing to set",
                                                 .fix = "give a priority or an estimate"});
    return decision;
  }
  const v1::Role role = input.caller.role;
  if (input.urgent.has_value() && role != v1::ROLE_OPERATOR && role != v1::ROLE_ADMIN) {
    decision.reply.status = common::MakeProblem(
        absl::StatusCode::kPermissionDenied,
        {.code = "JC1320",
         .what = absl::StrCat(input.caller.principal, " may not decide which jobs are urgent"),
         .fix = "ask an operator"});
    return decision;
  }
  v1::JobSpec numbers;
  numbers.set_priority(input.priority.value_or(0));
  numbers.set_estimate_ms(input.estimate_ms.value_or(0));
  decision.reply.status = job::CheckNumbers(numbers);
  if (!decision.reply.status.ok()) return decision;
  for (const uint64_t id : input.jobs) {
    const v1::JobRecord* job = FindJob(state, id);
    if (job == nullptr) {
      decision.reply.results.push_back(NotLive(id));
      continue;
    }
    decision.reply.results.push_back(ResultFor(id, job));
    if (const absl::Status may = CheckSet(state, *job, input); !may.ok()) {
      SetStatus(may, &decision.reply.results.back());
      continue;
    }
    v1::JobSet set;
    if (input.project.has_value() && *input.project != ProjectOf(*job))
      set.set_project(*input.project);
    if (input.priority.value_or(job->spec().priority()) != job->spec().priority())
      set.set_priority(*input.priority);
    if (input.estimate_ms.value_or(job->spec().estimate_ms()) != job->spec().estimate_ms())
      set.set_estimate_ms(*input.estimate_ms);
    if (input.urgent.value_or(job->urgent()) != job->urgent()) set.set_urgent(*input.urgent);
    if (set.ByteSizeLong() == 0) continue;  // it is so already
    v1::Event& event = decision.facts.emplace_back(LiveJobEvent(*job, now));
    event.set_skippable(true);
    set.set_by(input.caller.principal);
    *event.mutable_job_set() = std::move(set);
  }
  return decision;
}

Decision DecideOn(const ClusterState& state, const ProjectsInput& input, Now now) {
  Decision decision;
  if (SharesOf(input.projects) == state.projects) return decision;
  v1::Event& event = decision.facts.emplace_back();
  event.set_at_ms(now.wall_ms);
  event.set_skippable(true);
  *event.mutable_projects_set() = input.projects;
  return decision;
}

// A report about an attempt that is over changes nothing.
Decision DecideOn(const ClusterState& state, const ProgressInput& input, Now now) {
  Decision decision;
  const v1::JobRecord* job = FindJob(state, input.job);
  const v1::Attempt* attempt = job == nullptr ? nullptr : LiveAttempt(*job);
  if (attempt == nullptr || attempt->number() != input.attempt || input.left_ms < 0)
    return decision;
  v1::Event& event = decision.facts.emplace_back(LiveJobEvent(*job, now));
  event.mutable_job_progress()->set_left_ms(std::min(input.left_ms, job::kMaxDurationMs.most));
  return decision;
}

Decision DecideOn(const ClusterState& state, const RemoveInput& input, Now now) {
  Decision decision;
  for (const RemoveInput::Job& asked : input.jobs) {
    const v1::JobRecord* job = FindJob(state, asked.id);
    v1::BulkResult result = ResultFor(asked.id, job);
    if (job != nullptr) {
      SetStatus(common::MakeProblem(
                    absl::StatusCode::kFailedPrecondition,
                    {.code = "JC1204",
                     .what = absl::StrCat("job ", job->name(), " is ", StateName(job->state())),
                     .fix = absl::StrCat("jobctl cancel ", job->name(), " first")}),
                &result);
    } else {
      result.set_name(asked.name);
      v1::Event event;
      event.set_job(asked.id);
      event.set_at_ms(now.wall_ms);
      event.mutable_job_removed()->set_by(input.caller.principal);
      event.mutable_job_removed()->set_owner(asked.owner);
      event.mutable_job_removed()->set_owner_id(asked.owner_id);
      event.mutable_job_removed()->set_idempotency_key(asked.idempotency_key);
      decision.facts.push_back(std::move(event));
    }
    decision.reply.results.push_back(std::move(result));
  }
  return decision;
}

Decision DecideOn(const ClusterState& state, const RemoveCheckpointInput& input, Now now) {
  Decision decision;
  const v1::JobRecord* job = FindJob(state, input.job);
  v1::BulkResult result = ResultFor(input.job, job);
  if (job == nullptr) {
    decision.reply.results.push_back(NotLive(input.job));
    return decision;
  }
  bool found = false;
  const bool is_outputs = input.step == common::kOutputsStep;
  for (const v1::Checkpoint& checkpoint : ListFor(*job, input.step)) {
    if (checkpoint.step() != input.step) continue;
    if (is_outputs && checkpoint.attempt() != input.attempt) continue;
    found = true;
    const v1::Attempt* attempt = LiveAttempt(*job);
    if (attempt != nullptr && !AreLaunched(CountsOf(state, *job)) &&
        ResumedCheckpoint(*job, *attempt) == &checkpoint) {
      SetStatus(common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                                    {.code = "JC1506",
                                     .what = absl::StrCat("attempt ", attempt->number(),
                                                          " is starting from step ", input.step),
                                     .fix = "try again when it runs"}),
                &result);
      break;
    }
    v1::Event event = LiveJobEvent(*job, now);
    event.set_attempt(checkpoint.attempt());
    event.mutable_checkpoint_removed()->set_step(checkpoint.step());
    event.mutable_checkpoint_removed()->set_attempt(checkpoint.attempt());
    event.mutable_checkpoint_removed()->set_why(
        absl::StrCat("removed by ", input.caller.principal));
    decision.facts.push_back(std::move(event));
  }
  if (!found) {
    SetStatus(common::MakeProblem(
                  absl::StatusCode::kNotFound,
                  {.code = is_outputs ? "JC1720" : "JC1501",
                   .what = is_outputs ? absl::StrCat("attempt ", input.attempt, " has no outputs")
                                      : absl::StrCat("there is no checkpoint of step ", input.step),
                   .fix = is_outputs ? "jobctl outputs shows those that exist"
                                     : "jobctl ckpt ls shows those that exist"}),
              &result);
  }
  decision.reply.results.push_back(std::move(result));
  return decision;
}

Decision DecideOn(const ClusterState& state, const FlagCheckpointInput& input, Now now) {
  Decision decision;
  const v1::JobRecord* job = FindJob(state, input.job);
  if (job == nullptr) return decision;
  for (const v1::Checkpoint& checkpoint : ListFor(*job, input.step)) {
    if (checkpoint.step() != input.step || checkpoint.attempt() != input.attempt ||
        checkpoint.flagged_corrupt()) {
      continue;
    }
    // What another coordinator has is not damaged because it is not here.
    if (!OtherHeads(checkpoint, state.settings.head).empty()) continue;
    v1::Event event = LiveJobEvent(*job, now);
    event.set_attempt(checkpoint.attempt());
    event.mutable_checkpoint_flagged()->set_step(input.step);
    event.mutable_checkpoint_flagged()->set_why(input.why);
    decision.facts.push_back(std::move(event));
  }
  return decision;
}

Decision DecideOn(const ClusterState&, const TickInput&, Now) { return {}; }
Decision DecideOn(const ClusterState& state, const DiskSpaceInput& input, Now now) {
  Decision decision;
  if (input.space.low() == state.disk.low()) return decision;
  v1::Event& event = decision.facts.emplace_back();
  event.set_at_ms(now.wall_ms);
  event.set_skippable(true);
  *event.mutable_disk_space() = input.space;
  return decision;
}

Decision DecideOn(const ClusterState& state, const StreamFailedInput& input, Now now) {
  Decision decision;
  if (!state.jobs.contains(input.job)) return decision;
  v1::Event& event = decision.facts.emplace_back();
  event.set_job(input.job);
  event.set_attempt(input.attempt);
  event.set_at_ms(now.wall_ms);
  event.set_skippable(true);
  *event.mutable_stream_failed()->mutable_error() = input.error;
  return decision;
}

}  // namespace

void SetStatus(const absl::Status& status, v1::BulkResult* result) {
  result->set_status_code(static_cast<int32_t>(status.code()));
  result->set_message(std::string(status.message()));
  v1::ErrorDetail detail;
  if (common::CopyDetail(status, &detail)) *result->mutable_error() = std::move(detail);
}

Decision Decide(const ClusterState& state, const Input& input, Now now) {
  return std::visit([&](const auto& one) { return DecideOn(state, one, now); }, input);
}

}  // namespace muster::coordinator
