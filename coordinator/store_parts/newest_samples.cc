#include "coordinator/store_parts/newest_samples.h"

#include <utility>

namespace muster::coordinator {

void NewestSamples::Take(std::shared_ptr<const v1::SampleBatch> batch, int64_t now_ms) {
  std::lock_guard lock(mutex_);
  OfJob& job = jobs_[batch->job()];
  if (batch->attempt() < job.attempt) return;
  if (batch->attempt() > job.attempt) job = {batch->attempt(), {}};
  const std::string node = batch->node();
  job.nodes[node] = {std::move(batch), now_ms};
}

std::vector<NewestSample> NewestSamples::Find(uint64_t job, int64_t now_ms) const {
  std::vector<NewestSample> newest;
  std::lock_guard lock(mutex_);
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return newest;
  for (const auto& [node, arrived] : found->second.nodes) {
    if (now_ms - arrived.at_ms <= kFreshMs) {
      newest.push_back({arrived.batch, now_ms - arrived.at_ms});
    }
  }
  return newest;
}

void NewestSamples::Forget(uint64_t job) {
  std::lock_guard lock(mutex_);
  jobs_.erase(job);
}

void NewestSamples::DropStale(int64_t now_ms) {
  std::lock_guard lock(mutex_);
  for (auto& [job, of_job] : jobs_) {
    std::erase_if(of_job.nodes,
                  [now_ms](const auto& node) { return now_ms - node.second.at_ms > kFreshMs; });
  }
  std::erase_if(jobs_, [](const auto& job) { return job.second.nodes.empty(); });
}

}  // namespace muster::coordinator
