#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/job/code.h"
#include "common/job/validate.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/calls/sealed_environment.h"
#include "coordinator/calls/secrets.h"
#include "coordinator/calls/submit.h"
#include "coordinator/code/code_check.h"
#include "coordinator/contexts/lookup.h"
#include "coordinator/core/state/owner.h"
#include "coordinator/core/state/state.h"
#include "coordinator/identity/directory.h"
#include "coordinator/identity/ownership.h"
#include "coordinator/periodic/log_usage.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

absl::StatusOr<v1::Checkpoint> CheckpointToResume(const v1::JobRecord& job,
                                                  const v1::RerunJobRequest& request) {
  if (request.step() < 0) {
    const v1::Checkpoint* latest = LatestCheckpoint(job);
    if (latest != nullptr) return *latest;
    return common::MakeProblem(absl::StatusCode::kNotFound,
                               {.code = "JC1501",
                                .what = StrCat("job ", job.name(), " has no committed checkpoint"),
                                .fix = "rerun it from the beginning, without --from"});
  }
  const v1::Checkpoint* found = nullptr;
  for (const v1::Checkpoint& checkpoint : job.checkpoints()) {
    if (checkpoint.step() == request.step() &&
        checkpoint.state() == v1::CHECKPOINT_STATE_COMMITTED && !checkpoint.flagged_corrupt()) {
      found = &checkpoint;
    }
  }
  if (found != nullptr) return *found;
  return common::MakeProblem(
      absl::StatusCode::kNotFound,
      {.code = "JC1501",
       .what = StrCat("job ", job.name(), " has no committed checkpoint of step ", request.step()),
       .fix = StrCat("list them with jobctl ckpt ls ", job.name())});
}

// Whether the spec has something that HideFromOthers hides, and that would be in the caller's own job.
bool IsTheOwners(const v1::JobSpec& spec) {
  return !spec.env().empty() || !spec.sealed_env().empty() ||
         std::any_of(spec.notify().begin(), spec.notify().end(),
                     [](const auto& each) { return !each.webhook().empty(); });
}

absl::StatusOr<SubmitInput> RerunInput(const Caller& caller, const v1::RerunJobRequest& request,
                                       const v1::JobRecord& job) {
  if (!IsOwner(caller, job) && IsTheOwners(job.spec())) {
    return common::MakeProblem(
        absl::StatusCode::kPermissionDenied,
        {.code = "JC1320",
         .what = StrCat("job ", job.name(), " cannot be rerun by ", caller.principal),
         .why = StrCat("only ", job.owner(), " may see its environment or webhooks"),
         .fix = "submit your own job; jobctl show prints this one's command"});
  }
  SubmitInput input{.caller = caller};
  *input.request.mutable_spec() = job.spec();
  v1::JobSpec& spec = *input.request.mutable_spec();
  spec.set_rerun_of(job.id());
  spec.set_resume_step(0);
  for (const std::string& key : request.dropped_labels()) spec.mutable_labels()->erase(key);
  for (const auto& [key, value] : request.labels()) (*spec.mutable_labels())[key] = value;
  input.request.set_idempotency_key(request.idempotency_key());
  if (!request.from_checkpoint()) return input;
  ASSIGN_OR_RETURN(v1::Checkpoint checkpoint, CheckpointToResume(job, request));
  spec.set_resume_step(checkpoint.step());
  input.resume_from = std::move(checkpoint);
  return input;
}

// Code may be used only in the project that uploaded it.
absl::Status CheckMayRerunCode(Access& access, const Caller& caller, const v1::JobRecord& job) {
  if (!job.spec().has_code()) return absl::OkStatus();
  const std::string project = ProjectName(job.spec().project());
  const absl::Status may = access.directory.CheckProject(project, caller.principal);
  if (may.ok()) return may;
  return common::MakeProblem(
      may.code(), {.code = "JC1706",
                   .what = StrCat("job ", job.name(), " cannot be rerun by ", caller.principal),
                   .why = StrCat("its code was uploaded only for project ", project),
                   .fix = "send the code with a job in one of your projects"});
}

}  // namespace

void TellStores(JobStores& stores, uint64_t job, const v1::JobSpec& spec) {
  stores.metrics.Choose(job, spec.metric());
  if (spec.logs_keep_bytes() > 0) stores.logs.KeepAtMost(job, spec.logs_keep_bytes());
}

SubmitInput InputOf(const Access& access, const Caller& caller, const v1::SubmitRequest& request) {
  SubmitInput input{.caller = caller, .request = request};
  input.request.mutable_spec()->clear_sealed_env();
  input.account = access.directory.AccountOf(caller.principal);
  return input;
}

absl::Status EnqueueSubmit(Jobs& jobs, JobStores& stores, Access& access, SubmitInput input,
                           std::function<void(const Reply&)> done) {
  v1::JobSpec wanted;
  wanted.set_metric(input.request.spec().metric());
  wanted.set_logs_keep_bytes(input.request.spec().logs_keep_bytes());
  RETURN_IF_ERROR(SealEnvironment(access.cluster, &input));
  return jobs.loop.Submit(std::move(input),
                          [&stores, wanted, done = std::move(done)](const Reply& reply) {
                            if (reply.status.ok() && !reply.submit.existed())
                              TellStores(stores, reply.submit.job(), wanted);
                            done(reply);
                          });
}

namespace {

void AnswerSubmit(Jobs& jobs, JobStores& stores, Access& access, SubmitInput input,
                  const Answer<v1::SubmitResponse>& answer) {
  const absl::Status queued =
      EnqueueSubmit(jobs, stores, access, std::move(input), [answer](const Reply& reply) {
        reply.status.ok() ? answer(reply.submit) : answer(reply.status);
      });
  if (!queued.ok()) answer(queued);
}

}  // namespace

void CheckMayUseCode(JobStores& stores, JobCode& job_code, Access& access, Process& process,
                     const Caller& caller, const v1::JobSpec& spec,
                     std::function<void(const absl::Status&)> then) {
  if (const absl::Status may = access.directory.CheckProject(spec.project(), caller.principal);
      !may.ok()) {
    return then(may);
  }
  if (!spec.has_code()) return then(absl::OkStatus());
  // Checked before the store is asked for what the spec names.
  if (const absl::Status rules = job::CheckCode(spec); !rules.ok()) return then(rules);
  job_code.checks.Check(stores, job_code, process, spec, std::move(then));
}

void CheckMayUse(JobStores& stores, JobCode& job_code, Access& access, Process& process,
                 const Caller& caller, const v1::JobSpec& spec,
                 std::function<void(const absl::Status&)> then) {
  if (const absl::Status room = stores.log_usage.CheckRoom(caller); !room.ok()) return then(room);
  const std::vector<std::string> names(spec.secrets().begin(), spec.secrets().end());
  CheckMayUseCode(
      stores, job_code, access, process, caller, spec,
      [&access, &process, caller, then = std::move(then), names](const absl::Status& may) {
        if (!may.ok() || names.empty()) return then(may);
        if (access.cluster == nullptr) return then(NoKeyForSecrets(access));
        process.pool.Post([&access, caller, names, then] {
          then(access.directory.FindSecrets(OwnerKey(caller), names).status());
        });
      });
}

void Submit(Jobs& jobs, JobStores& stores, JobCode& job_code, Access& access, Process& process,
            const Caller& caller, const v1::SubmitRequest& request,
            Answer<v1::SubmitResponse> answer) {
  // The core checks all rules; this one has to come before the request takes space in the loop's
  // queue.
  if (const absl::Status size = job::CheckSize(request.spec()); !size.ok()) return answer(size);
  const auto input = std::make_shared<SubmitInput>(InputOf(access, caller, request));
  CheckMayUse(stores, job_code, access, process, caller, request.spec(),
              [&jobs, &stores, &access, input, answer](const absl::Status& may) {
                if (!may.ok()) return answer(may);
                AnswerSubmit(jobs, stores, access, std::move(*input), answer);
              });
}
MUSTER_HANDLER(Submit)

void RerunJob(Jobs& jobs, JobStores& stores, JobCode& job_code, Access& access, Process& process,
              const Caller& caller, const v1::RerunJobRequest& request,
              Answer<v1::SubmitResponse> answer) {
  FindJob(
      jobs, process, caller, request.job(),
      [&jobs, &stores, &job_code, &access, &process, caller, request,
       answer = std::move(answer)](absl::StatusOr<FoundJob> found) {
        if (!found.ok()) return answer(found.status());
        const absl::Status may = CheckMayRerunCode(access, caller, *found->record);
        if (!may.ok()) return answer(may);
        absl::StatusOr<SubmitInput> input = RerunInput(caller, request, *found->record);
        if (!input.ok()) return answer(input.status());
        input->account = access.directory.AccountOf(caller.principal);
        CheckMayUse(stores, job_code, access, process, caller, input->request.spec(),
                    [&jobs, &stores, &access, input = *input, answer](const absl::Status& may) {
                      if (!may.ok()) return answer(may);
                      AnswerSubmit(jobs, stores, access, input, answer);
                    });
      },
      Want::kRecordWithFiles);
}
MUSTER_HANDLER(RerunJob)

}  // namespace muster::coordinator
