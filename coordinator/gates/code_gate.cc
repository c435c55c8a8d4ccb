#include "coordinator/gates/code_gate.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "coordinator/code/job_code.h"
#include "coordinator/contexts/contexts.h"
#include "coordinator/contexts/lookup.h"
#include "coordinator/stores/code_store.h"

namespace muster::coordinator {

bool CodeGate::Has(const Objects& objects, const std::string& sha256) {
  const std::optional<tree::Digest> digest = tree::FromHex(sha256);
  return digest.has_value() && std::binary_search(objects.begin(), objects.end(), *digest);
}

CodeGate::ObjectsOfJobs::Found CodeGate::Learn(JobCode& job_code, const v1::JobSpec& spec) {
  auto objects = std::make_shared<Objects>();
  if (spec.has_code()) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names,
                     job_code.store.ObjectsOf(CodeNameOf(spec)));
    for (const std::string& name : names) {
      if (const auto digest = tree::FromHex(name); digest.has_value()) objects->push_back(*digest);
    }
    std::sort(objects->begin(), objects->end());
  }
  return objects;
}

void CodeGate::Check(Jobs& jobs, JobCode& job_code, Process& process, uint64_t job,
                     const std::string& sha256, Answer answer) {
  jobs_.Get(
      job,
      [&jobs, &job_code, &process, job](std::function<void(ObjectsOfJobs::Found)> done) {
        FindJob(
            jobs, process, Caller{}, std::to_string(job),
            [&job_code, &process, done = std::move(done)](const absl::StatusOr<FoundJob>& found) {
              if (!found.ok()) return done(found.status());
              process.pool.Post([&job_code, done, record = found->record] {
                done(Learn(job_code, record->spec()));
              });
            });
      },
      [sha256, answer = std::move(answer)](const ObjectsOfJobs::Found& objects) {
        if (absl::IsNotFound(objects.status())) return answer(false);
        if (!objects.ok()) return answer(objects.status());
        answer(Has(**objects, sha256));
      },
      [](const ObjectsOfJobs::Found& objects) { return objects.ok(); });
}

void CodeGate::Forget(uint64_t job) { jobs_.Forget(job); }

}  // namespace muster::coordinator
