#include "tests/stores/memory_metric_store.h"

namespace muster::coordinator {
namespace {

class MemoryMetricReader final : public MetricReader {
 public:
  MemoryMetricReader(std::shared_ptr<MemoryMetrics> metrics, uint64_t job)
      : metrics_(std::move(metrics)), job_(job) {}

  absl::StatusOr<bool> Next(v1::MetricBatch& batch) override {
    std::lock_guard lock(metrics_->mutex);
    for (auto of_attempt = metrics_->batches.lower_bound({job_, 0});
         of_attempt != metrics_->batches.end() && of_attempt->first.first == job_; ++of_attempt) {
      size_t& next = next_[of_attempt->first.second];
      if (next >= of_attempt->second.size()) continue;
      batch = of_attempt->second[next++];
      return true;
    }
    return false;
  }
  size_t Attempts() const override { return next_.size(); }
  uint64_t DamagedBytes() const override { return 0; }
  void Forget() override {}

 private:
  const std::shared_ptr<MemoryMetrics> metrics_;
  const uint64_t job_;
  std::map<uint32_t, size_t> next_;  // by attempt
};

}  // namespace

void MemoryMetricStore::Append(v1::MetricBatch batch, std::shared_ptr<MetricUploader> uploader) {
  const size_t bytes = batch.ByteSizeLong();
  batch.clear_encoded();
  thread_.Post([this, bytes, batch = std::move(batch), uploader = std::move(uploader)] {
    uploader->Acknowledge(Write(batch));
    uploader->Consumed(bytes);
  });
}

v1::MetricAck MemoryMetricStore::Write(const v1::MetricBatch& batch) {
  {
    std::lock_guard lock(mutex_);
    if (removed_.contains(batch.job())) return RefusalOf(batch);
  }
  const MemoryMetrics::Key key{batch.job(), batch.attempt()};
  {
    std::lock_guard lock(metrics_->mutex);
    MetricSources& sources = metrics_->sources[key];
    if (!sources.CheckNext(batch).ok()) return RefusalOf(batch);
    if (sources.IsKnown(batch)) return AckFor(batch, sources.Newest(batch));
    sources.Take(batch);
    metrics_->batches[key].push_back(batch);
  }
  newest_.Take(batch);
  watchers_.Notify(batch.job(), batch);
  return AckFor(batch, batch.seq());
}

WatchToken MemoryMetricStore::Watch(uint64_t job, Watcher watcher) {
  return watchers_.Watch(job, std::move(watcher));
}

void MemoryMetricStore::DecorateFinished(v1::JobSummary& summary) {
  newest_.Choose(summary.id(), summary.metric());
  Warm(summary.id());
  newest_.Decorate(summary);
}

std::unique_ptr<MetricReader> MemoryMetricStore::Read(uint64_t job) const {
  return std::make_unique<MemoryMetricReader>(metrics_, job);
}

void MemoryMetricStore::Warm(uint64_t job) {
  NewestMetrics newest = newest_.Nothing(job);
  v1::MetricBatch batch;
  MemoryMetricReader reader(metrics_, job);
  while (reader.Next(batch).value_or(false)) newest.Take(batch);
  newest_.Replace(job, newest);
}

void MemoryMetricStore::Remove(uint64_t job) {
  {
    std::lock_guard lock(mutex_);
    removed_.insert(job);
  }
  newest_.Forget(job);
  watchers_.Forget(job);
  std::lock_guard lock(metrics_->mutex);
  std::erase_if(metrics_->batches, [&](const auto& entry) { return entry.first.first == job; });
  std::erase_if(metrics_->sources, [&](const auto& entry) { return entry.first.first == job; });
}

}  // namespace muster::coordinator
