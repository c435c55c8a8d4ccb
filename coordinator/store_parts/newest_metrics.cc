#include "coordinator/store_parts/newest_metrics.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/loss_name.h"

namespace muster::coordinator {
namespace {

constexpr size_t kFirstWord = 6;  // first number that holds the name, eight bytes in each
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

void NewestMetricsCache::Choose(uint64_t job, const std::string& metric) {
  if (metric.empty()) return;
  std::lock_guard lock(mutex_);
  chosen_.Put(job, metric);
  if (NewestMetrics* known = of_job_.Find(job); known != nullptr) known->chosen = metric;
}

std::string NewestMetricsCache::ChoiceOf(uint64_t job) const {
  const std::string* chosen = chosen_.Peek(job);
  return chosen == nullptr ? "" : *chosen;
}

NewestMetrics& NewestMetricsCache::Of(uint64_t job) {
  if (NewestMetrics* known = of_job_.Find(job); known != nullptr) return *known;
  return of_job_.Put(job, {.chosen = ChoiceOf(job)});
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
}

void NewestMetricsCache::Keep(uint64_t job, const NewestMetrics& newest) {
  std::lock_guard lock(mutex_);
  if (of_job_.Peek(job) == nullptr) Set(job, newest);
}

void NewestMetricsCache::Replace(uint64_t job, const NewestMetrics& newest) {
  std::lock_guard lock(mutex_);
  Set(job, newest);
}

void NewestMetricsCache::Set(uint64_t job, const NewestMetrics& newest) {
  of_job_.Put(job, newest).chosen = ChoiceOf(job);
}

void NewestMetricsCache::Forget(uint64_t job) {
  std::lock_guard lock(mutex_);
  of_job_.Erase(job);
  chosen_.Erase(job);
}

std::optional<NewestMetrics> NewestMetricsCache::Find(uint64_t job) const {
  std::lock_guard lock(mutex_);
  const NewestMetrics* known = of_job_.Peek(job);
  if (known == nullptr) return std::nullopt;
  return *known;
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
