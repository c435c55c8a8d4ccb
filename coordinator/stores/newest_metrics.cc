#include "coordinator/stores/newest_metrics.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/loss_name.h"

namespace muster::coordinator {
namespace {

constexpr size_t kFirstWord = 6;  // of the name, in the numbers: eight bytes in each
constexpr size_t kNameBytesMax = (NewestMetrics::kNumbers - kFirstWord) * sizeof(int64_t);

}  // namespace

bool NewestMetrics::MayStand(const std::string& name) const {
  return chosen.empty() ? common::IsLossName(name) : name == chosen;
}

bool NewestMetrics::IsOfTheLoss(const v1::MetricBatch& batch, const std::string& name) const {
  if (has_loss && batch.attempt() < attempt) return false;
  if (!has_loss || batch.attempt() > attempt) return MayStand(name);
  if (name == loss_name) return batch.rank() <= rank;
  return MayStand(name) && common::IsRatherTheLoss(name, loss_name);
}

void NewestMetrics::Take(const v1::MetricBatch& batch) {
  for (const v1::MetricPoint& point : batch.points()) {
    step = std::max(step, point.step());
    if (!IsOfTheLoss(batch, point.name())) continue;
    loss_name = point.name();
    loss = point.value();
    has_loss = true;
    attempt = batch.attempt();
    rank = batch.rank();
  }
}

std::vector<int64_t> NewestMetrics::Numbers() const {
  if (loss_name.size() > kNameBytesMax) return {};
  std::vector<int64_t> numbers(kNumbers);
  numbers[0] = step;
  numbers[1] = std::bit_cast<int64_t>(loss);
  numbers[2] = has_loss;
  numbers[3] = attempt;
  numbers[4] = rank;
  numbers[5] = static_cast<int64_t>(loss_name.size());
  std::memcpy(&numbers[kFirstWord], loss_name.data(), loss_name.size());
  return numbers;
}

std::optional<NewestMetrics> NewestMetrics::Of(const std::vector<int64_t>& numbers) {
  if (numbers.size() != kNumbers || numbers[5] < 0 ||
      static_cast<size_t>(numbers[5]) > kNameBytesMax) {
    return std::nullopt;
  }
  NewestMetrics newest;
  newest.step = numbers[0];
  newest.loss = std::bit_cast<double>(numbers[1]);
  newest.has_loss = numbers[2] != 0;
  newest.attempt = static_cast<uint32_t>(numbers[3]);
  newest.rank = static_cast<uint32_t>(numbers[4]);
  newest.loss_name.resize(static_cast<size_t>(numbers[5]));
  std::memcpy(newest.loss_name.data(), &numbers[kFirstWord], newest.loss_name.size());
  return newest;
}

void NewestMetricsCache::KeepFew() {
  if (of_job_.size() > kJobsMax) of_job_.erase(of_job_.begin());
  if (chosen_.size() > kJobsMax) chosen_.erase(chosen_.begin());
}

void NewestMetricsCache::Choose(uint64_t job, const std::string& metric) {
  if (metric.empty()) return;
  std::lock_guard lock(mutex_);
  chosen_[job] = metric;
  if (const auto known = of_job_.find(job); known != of_job_.end()) known->second.chosen = metric;
  KeepFew();
}

std::string NewestMetricsCache::ChoiceOf(uint64_t job) const {
  const auto chosen = chosen_.find(job);
  return chosen == chosen_.end() ? "" : chosen->second;
}

NewestMetrics& NewestMetricsCache::Of(uint64_t job) {
  const auto [known, is_new] = of_job_.try_emplace(job);
  if (is_new) known->second.chosen = ChoiceOf(job);
  return known->second;
}

NewestMetrics NewestMetricsCache::Nothing(uint64_t job) const {
  std::lock_guard lock(mutex_);
  NewestMetrics nothing;
  nothing.chosen = ChoiceOf(job);
  return nothing;
}

void NewestMetricsCache::Take(const v1::MetricBatch& batch) {
  std::lock_guard lock(mutex_);
  Of(batch.job()).Take(batch);
  KeepFew();
}

void NewestMetricsCache::Keep(uint64_t job, const NewestMetrics& newest) {
  std::lock_guard lock(mutex_);
  if (!of_job_.contains(job)) Set(job, newest);
}

void NewestMetricsCache::Replace(uint64_t job, const NewestMetrics& newest) {
  std::lock_guard lock(mutex_);
  Set(job, newest);
}

void NewestMetricsCache::Set(uint64_t job, const NewestMetrics& newest) {
  NewestMetrics& known = of_job_[job];
  known = newest;
  known.chosen = ChoiceOf(job);
  KeepFew();
}

void NewestMetricsCache::Forget(uint64_t job) {
  std::lock_guard lock(mutex_);
  of_job_.erase(job);
  chosen_.erase(job);
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
  summary.set_loss_name(newest->loss_name);
  summary.set_has_loss(newest->has_loss);
}

}  // namespace muster::coordinator
