#include <set>
#include <utility>

#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/contexts/lookup.h"
#include "coordinator/core/state/state.h"
#include "coordinator/identity/directory.h"
#include "coordinator/identity/ownership.h"
#include "coordinator/periodic/garbage.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

std::vector<std::string> ReferencesOf(const google::protobuf::RepeatedPtrField<std::string>& jobs) {
  return {jobs.begin(), jobs.end()};
}

absl::Status AlreadyOver(const v1::JobRecord& job) {
  return common::MakeProblem(
      absl::StatusCode::kFailedPrecondition,
      {.code = "JC1203",
       .what = StrCat("job ", job.name(), " is over (", StateName(job.state()), ")")});
}

// The results in the order of the request: `direct` where there is one, otherwise the core's next result.
v1::BulkResponse Interleave(std::vector<std::optional<v1::BulkResult>> direct,
                            const std::vector<std::string>& subjects, const Reply& reply) {
  v1::BulkResponse response;
  size_t next = 0;
  for (size_t i = 0; i < direct.size(); ++i) {
    if (direct[i].has_value()) {
      *response.add_results() = *std::move(direct[i]);
    } else if (next < reply.results.size()) {
      *response.add_results() = reply.results[next++];
      response.mutable_results(response.results_size() - 1)->set_subject(subjects[i]);
    } else {
      *response.add_results() = BulkResultOf(subjects[i], reply.status);
    }
  }
  return response;
}

void Enqueue(Jobs& jobs, Input input, std::vector<std::optional<v1::BulkResult>> direct,
             std::vector<std::string> subjects, Answer<v1::BulkResponse> answer) {
  const absl::Status queued = jobs.loop.Submit(
      std::move(input),
      [direct = std::move(direct), subjects = std::move(subjects), answer](const Reply& reply) {
        if (!reply.status.ok() && direct.size() == 1) return answer(reply.status);
        answer(Interleave(direct, subjects, reply));
      });
  if (!queued.ok()) answer(queued);
}

// Gives `take` the jobs that the caller may change, one by one. The results of those that are
// unknown, that it may not change, or that `take` has an error for.
template <typename Take>
std::vector<std::optional<v1::BulkResult>> TakeEach(
    const std::vector<absl::StatusOr<FoundJob>>& found, const std::vector<std::string>& subjects,
    const Caller& caller, Take take) {
  std::vector<std::optional<v1::BulkResult>> direct(found.size());
  std::set<uint64_t> seen;
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].ok()) {
      direct[i] = BulkResultOf(subjects[i], found[i].status());
      continue;
    }
    const v1::JobRecord& job = *found[i]->record;
    // By its name and its number: what is decided for it once would not hold for the second time.
    if (!seen.insert(job.id()).second) {
      direct[i] = BulkResultOf(subjects[i], absl::OkStatus(), &job);
      direct[i]->set_message("is named twice");
      continue;
    }
    absl::Status may = CheckMayChange(caller, job);
    if (may.ok()) may = take(*found[i]);
    if (!may.ok()) direct[i] = BulkResultOf(subjects[i], may, &job);
  }
  return direct;
}

// One input for all live jobs; those that are unknown or over are answered individually.
template <typename LiveInput>
void ChangeLive(Jobs& jobs, Process& process, const Caller& caller,
                const std::vector<std::string>& subjects, LiveInput input,
                Answer<v1::BulkResponse> answer) {
  FindJobs(jobs, process, caller, subjects,
           [&jobs, caller, input = std::move(input), subjects,
            answer = std::move(answer)](std::vector<absl::StatusOr<FoundJob>> found) mutable {
             auto direct = TakeEach(found, subjects, caller, [&](const FoundJob& job) {
               if (!job.live) return AlreadyOver(*job.record);
               input.jobs.push_back(job.record->id());
               return absl::OkStatus();
             });
             if (input.jobs.empty()) return answer(Interleave(direct, subjects, Reply()));
             Enqueue(jobs, std::move(input), std::move(direct), subjects, answer);
           });
}

}  // namespace

void CancelJobs(Jobs& jobs, Process& process, const Caller& caller,
                const v1::CancelJobsRequest& request, Answer<v1::BulkResponse> answer) {
  ChangeLive(jobs, process, caller, ReferencesOf(request.jobs()),
             CancelInput{.caller = caller,
                         .has_grace = request.has_grace(),
                         .grace_ms = request.grace_ms(),
                         .reason = request.reason()},
             std::move(answer));
}
MUSTER_HANDLER(CancelJobs)

void StopJobs(Jobs& jobs, Process& process, const Caller& caller,
              const v1::StopJobsRequest& request, Answer<v1::BulkResponse> answer) {
  StopInput input{.caller = caller};
  if (request.has_notice_ms()) input.notice_ms = request.notice_ms();
  ChangeLive(jobs, process, caller, ReferencesOf(request.jobs()), std::move(input),
             std::move(answer));
}
MUSTER_HANDLER(StopJobs)

void ReleaseJobs(Jobs& jobs, Process& process, const Caller& caller,
                 const v1::ReleaseJobsRequest& request, Answer<v1::BulkResponse> answer) {
  ChangeLive(jobs, process, caller, ReferencesOf(request.jobs()),
             ReleaseInput{.caller = caller, .from_scratch = request.from_scratch()},
             std::move(answer));
}
MUSTER_HANDLER(ReleaseJobs)

void SetJobs(Jobs& jobs, Access& access, Process& process, const Caller& caller,
             const v1::SetJobsRequest& request, Answer<v1::BulkResponse> answer) {
  SetInput input{.caller = caller};
  if (request.has_priority()) input.priority = request.priority();
  if (request.has_estimate_ms()) input.estimate_ms = request.estimate_ms();
  if (request.has_urgent()) input.urgent = request.urgent();
  if (request.has_project()) {
    const absl::Status may = access.directory.CheckProject(request.project(), caller.principal);
    if (!may.ok()) return answer(may);
    input.project =
        request.project().empty() ? std::string(Directory::kDefaultProject) : request.project();
  }
  ChangeLive(jobs, process, caller, ReferencesOf(request.jobs()), std::move(input),
             std::move(answer));
}
MUSTER_HANDLER(SetJobs)

void SignalJob(Jobs& jobs, Process& process, const Caller& caller,
               const v1::SignalJobRequest& request, Answer<v1::BulkResponse> answer) {
  FindJob(jobs, process, caller, request.job(),
          [&jobs, caller, request, answer = std::move(answer)](absl::StatusOr<FoundJob> found) {
            if (!found.ok()) return answer(found.status());
            const absl::Status may = CheckMayChange(caller, *found->record);
            if (!may.ok()) return answer(may);
            if (!found->live) return answer(AlreadyOver(*found->record));
            Enqueue(jobs, SignalInput{caller, found->record->id(), request.signal()},
                    std::vector<std::optional<v1::BulkResult>>(1), {request.job()}, answer);
          });
}
MUSTER_HANDLER(SignalJob)

void RemoveJobs(Jobs& jobs, JobStores& stores, JobCode& job_code, Gates& gates, Process& process,
                const Caller& caller, const v1::JobReferences& request,
                Answer<v1::BulkResponse> answer) {
  const std::vector<std::string> subjects = ReferencesOf(request.jobs());
  FindJobs(jobs, process, caller, subjects,
           [&jobs, &stores, &job_code, &gates, &process, caller, subjects,
            answer = std::move(answer)](std::vector<absl::StatusOr<FoundJob>> found) {
             RemoveInput input{.caller = caller};
             const auto direct = TakeEach(found, subjects, caller, [&](const FoundJob& each) {
               const v1::JobRecord& job = *each.record;
               input.jobs.push_back({.id = job.id(),
                                     .name = job.name(),
                                     .owner = job.owner(),
                                     .idempotency_key = job.idempotency_key(),
                                     .owner_id = job.owner_id()});
               return absl::OkStatus();
             });
             if (input.jobs.empty()) return answer(Interleave(direct, subjects, Reply()));
             RemoveWithBelongings(jobs, stores, job_code, gates, process, std::move(input),
                                  [direct, subjects, answer](const Reply& reply) {
                                    answer(Interleave(direct, subjects, reply));
                                  });
           });
}
MUSTER_HANDLER(RemoveJobs)

}  // namespace muster::coordinator
