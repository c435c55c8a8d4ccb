#include "coordinator/stores/stream_failures.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace muster::coordinator {
namespace {

int64_t NowMs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

}  // namespace

void StreamFailures::Failed(Failure failure, int64_t for_ms) {
  const int64_t now_ms = NowMs();
  bool is_first = false;
  {
    std::lock_guard lock(mutex_);
    auto found = jobs_.find(failure.job);
    if (found == jobs_.end() && jobs_.size() >= kJobsMax) {
      std::erase_if(jobs_, [&](const auto& each) { return each.second.until_ms <= now_ms; });
      if (jobs_.size() >= kJobsMax) return;
    }
    is_first = found == jobs_.end() || found->second.until_ms <= now_ms;
    Entry& entry = jobs_[failure.job];
    const int64_t until_ms = is_first ? 0 : entry.until_ms;
    entry = {failure, std::max(until_ms, now_ms + for_ms)};
  }
  if (is_first && told_) told_(failure);
}

std::vector<StreamFailures::Failure> StreamFailures::Now() {
  const int64_t now_ms = NowMs();
  std::vector<Failure> now;
  std::lock_guard lock(mutex_);
  std::erase_if(jobs_, [&](const auto& each) { return each.second.until_ms <= now_ms; });
  for (const auto& [job, entry] : jobs_) now.push_back(entry.failure);
  return now;
}

}  // namespace muster::coordinator
