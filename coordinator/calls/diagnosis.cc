// What every rank of a job is doing: forwards the question to the nodes and their answers to the
// client. Changes nothing in the cluster.
#include "coordinator/contexts/diagnoses.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/calls/handlers.h"
#include "coordinator/contexts/lookup.h"
#include "coordinator/core/views/views.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr uint32_t kWaitMs = 10'000;
constexpr uint32_t kWaitMsMost = 600'000;
constexpr std::chrono::milliseconds kExpireEvery{100};

v1::DiagnosedAttempt Describe(const v1::JobRecord& job, const v1::Attempt& attempt) {
  v1::DiagnosedAttempt described;
  described.set_job(job.id());
  described.set_name(job.name());
  described.set_attempt(attempt.number());
  described.set_world_size(attempt.world_size());
  *described.mutable_parts() = attempt.parts();
  for (v1::NodePart& part : *described.mutable_parts()) {
    part.clear_exits();
    part.clear_device_indexes();
  }
  return described;
}

v1::CoordinatorMessage QuestionFor(const v1::DiagnosedAttempt& attempt, uint64_t number,
                                   const std::string& principal) {
  v1::CoordinatorMessage message;
  v1::DiagnoseAttempt* diagnose = message.mutable_diagnose();
  diagnose->set_job(attempt.job());
  diagnose->set_attempt(attempt.attempt());
  diagnose->set_number(number);
  diagnose->set_reason(StrCat("asked by ", principal));
  return message;
}

// One timer for all looks, so that a client that comes and leaves does not leave a timer behind.
void ExpireSoon(Jobs& jobs, Process& process) {
  process.pool.PostAfter(kExpireEvery, [&jobs, &process] {
    if (jobs.diagnoses.Expire(std::chrono::steady_clock::now())) ExpireSoon(jobs, process);
  });
}

}  // namespace

void DiagnoseJob(Jobs& jobs, Process& process, const Caller& caller,
                 const v1::DiagnoseJobRequest& request,
                 std::shared_ptr<Sink<v1::DiagnoseJobUpdate>> sink) {
  const std::chrono::milliseconds wait(
      std::min(request.wait_ms() > 0 ? request.wait_ms() : kWaitMs, kWaitMsMost));
  FindJob(jobs, process, caller, request.job(), [&jobs, &process, caller, wait, sink](auto found) {
    if (!found.ok()) return sink->Close(found.status());
    const uint64_t id = found->record->id();
    jobs.loop.Ask([&jobs, &process, caller, wait, sink, id,
                   record = found->record](const LoopView& view) -> std::function<void()> {
      const auto job = view.state.jobs.find(id);
      const v1::Attempt* attempt =
          job == view.state.jobs.end() ? nullptr : LiveAttempt(job->second);
      if (attempt == nullptr || attempt->running_ms() == 0) {
        sink->Close(
            common::MakeProblem(absl::StatusCode::kFailedPrecondition,
                                {.code = "JC1208",
                                 .what = StrCat("no rank of job ", record->name(), " is running"),
                                 .fix = StrCat("jobctl why ", record->name())}));
        return nullptr;
      }
      const v1::DiagnosedAttempt asked = Describe(job->second, *attempt);
      const auto now = std::chrono::steady_clock::now();
      const absl::StatusOr<std::optional<uint64_t>> number = jobs.diagnoses.Open(
          asked, {.principal = caller.principal, .now = now, .until = now + wait, .stream = sink});
      if (!number.ok()) {
        sink->Close(number.status());
        return nullptr;
      }
      if (number->has_value()) {
        for (const v1::NodePart& part : asked.parts())
          view.send(part.node(), QuestionFor(asked, **number, caller.principal));
      }
      if (jobs.diagnoses.BeginExpiring()) ExpireSoon(jobs, process);
      return nullptr;
    });
  });
}
MUSTER_HANDLER(DiagnoseJob)

}  // namespace muster::coordinator
