#include "coordinator/rpc/job_gate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "coordinator/rpc/lookup.h"

namespace muster::coordinator {

void JobGate::Check(Daemon& daemon, uint64_t job, uint32_t attempt,
                    std::function<void(bool)> answer) {
  bool is_known = false;
  {
    std::lock_guard lock(mutex_);
    const auto known = attempts_.find(job);
    is_known = known != attempts_.end() && attempt < known->second;
  }
  if (is_known) return answer(true);
  FindJob(daemon, Caller{}, std::to_string(job),
          [this, job, attempt, answer = std::move(answer)](absl::StatusOr<FoundJob> found) {
            if (!found.ok()) return answer(false);
            uint32_t attempts = found->record->next_attempt();
            for (const v1::Attempt& started : found->record->attempts()) {
              attempts = std::max(attempts, started.number() + 1);
            }
            Remember(job, attempts);
            answer(attempt < attempts);
          });
}

void JobGate::Remember(uint64_t job, uint32_t attempts) {
  std::lock_guard lock(mutex_);
  if (attempts_.size() >= kRememberedMax) attempts_.clear();
  attempts_[job] = attempts;
}

void JobGate::Forget(uint64_t job) {
  std::lock_guard lock(mutex_);
  attempts_.erase(job);
}

}  // namespace muster::coordinator
