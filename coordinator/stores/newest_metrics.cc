#include "coordinator/stores/newest_metrics.h"

#include <algorithm>

#include "coordinator/findings/loss_name.h"

namespace muster::coordinator {

void NewestMetrics::Take(const v1::MetricBatch& batch) {
  for (const v1::MetricPoint& point : batch.points()) {
    step = std::max(step, point.step());
    if (!IsLossName(point.name())) continue;
    loss = point.value();
    has_loss = true;
  }
}

void NewestMetricsCache::KeepFew() {
  if (of_job_.size() > kJobsMax) of_job_.erase(of_job_.begin());
}

void NewestMetricsCache::Take(const v1::MetricBatch& batch) {
  std::lock_guard lock(mutex_);
  of_job_[batch.job()].Take(batch);
  KeepFew();
}

void NewestMetricsCache::Keep(uint64_t job, const NewestMetrics& newest) {
  std::lock_guard lock(mutex_);
  of_job_.try_emplace(job, newest);
  KeepFew();
}

void NewestMetricsCache::Replace(uint64_t job, const NewestMetrics& newest) {
  std::lock_guard lock(mutex_);
  of_job_[job] = newest;
  KeepFew();
}

void NewestMetricsCache::Forget(uint64_t job) {
  std::lock_guard lock(mutex_);
  of_job_.erase(job);
}

std::optional<NewestMetrics> NewestMetricsCache::Find(uint64_t job) const {
  std::lock_guard lock(mutex_);
  const auto known = of_job_.find(job);
  if (known == of_job_.end()) return std::nullopt;
  return known->second;
}

void NewestMetricsCache::Decorate(v1::JobSummary& summary) const {
  const std::optional<NewestMetrics> newest = Find(summary.id());
  if (!newest.has_value() || newest->step < 0) {
    if (summary.step() == 0 && !summary.has_loss()) summary.set_step(-1);
    return;
  }
  summary.set_step(newest->step);
  summary.set_loss(newest->loss);
  summary.set_has_loss(newest->has_loss);
}

}  // namespace muster::coordinator
