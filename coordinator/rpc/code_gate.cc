#include "coordinator/rpc/code_gate.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/status.h"
#include "coordinator/rpc/contexts.h"
#include "coordinator/rpc/lookup.h"
#include "coordinator/stores/code_store.h"

namespace muster::coordinator {

bool CodeGate::Has(const Objects& objects, const std::string& sha256) {
  const std::optional<tree::Digest> digest = tree::FromHex(sha256);
  return digest.has_value() && std::binary_search(objects.begin(), objects.end(), *digest);
}

absl::StatusOr<std::shared_ptr<const CodeGate::Objects>> CodeGate::Learn(JobCode& job_code,
                                                                         uint64_t job,
                                                                         const v1::JobSpec& spec) {
  auto objects = std::make_shared<Objects>();
  if (spec.has_code()) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names,
                     job_code.store.ObjectsOf(CodeNameOf(spec)));
    for (const std::string& name : names) {
      if (const auto digest = tree::FromHex(name); digest.has_value()) objects->push_back(*digest);
    }
    std::sort(objects->begin(), objects->end());
  }
  std::lock_guard lock(mutex_);
  if (objects_ + objects->size() > kObjectsMax || jobs_.size() >= kJobsMax) {
    jobs_.clear();
    objects_ = 0;
  }
  if (jobs_.try_emplace(job, objects).second) objects_ += objects->size();
  return std::shared_ptr<const Objects>(std::move(objects));
}

void CodeGate::Check(Jobs& jobs, JobCode& job_code, Process& process, uint64_t job,
                     const std::string& sha256, Answer answer) {
  std::shared_ptr<const Objects> known;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = jobs_.find(job); found != jobs_.end()) known = found->second;
  }
  if (known != nullptr) return answer(Has(*known, sha256));
  FindJob(jobs, process, Caller{}, std::to_string(job),
          [this, &job_code, &process, job, sha256,
           answer = std::move(answer)](absl::StatusOr<FoundJob> found) {
            if (absl::IsNotFound(found.status())) return answer(false);
            if (!found.ok()) return answer(found.status());
            process.pool.Post([this, &job_code, job, sha256, answer, record = found->record] {
              const auto objects = Learn(job_code, job, record->spec());
              if (!objects.ok()) return answer(objects.status());
              answer(Has(**objects, sha256));
            });
          });
}

void CodeGate::Forget(uint64_t job) {
  std::lock_guard lock(mutex_);
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  objects_ -= found->second->size();
  jobs_.erase(found);
}

}  // namespace muster::coordinator
