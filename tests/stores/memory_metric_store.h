// Metrics in memory. What was appended is durable at once.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "coordinator/base/work_pool.h"
#include "coordinator/store_parts/metric_sources.h"
#include "coordinator/store_parts/newest_metrics.h"
#include "coordinator/stores/metric_store.h"

namespace muster::coordinator {

// Outlives the stores that are opened on it.
struct MemoryMetrics {
  using Key = std::pair<uint64_t, uint32_t>;  // job, attempt

  std::mutex mutex;  // guards what follows
  std::map<Key, std::vector<v1::MetricBatch>> batches;
  std::map<Key, MetricSources> sources;
};

class MemoryMetricStore final : public MetricStore {
 public:
  explicit MemoryMetricStore(std::shared_ptr<MemoryMetrics> metrics)
      : metrics_(std::move(metrics)) {}
  ~MemoryMetricStore() override { Stop(); }
  void Stop() override { thread_.Stop(); }

  void Append(v1::MetricBatch batch, std::shared_ptr<MetricUploader> uploader) override;
  WatchToken Watch(uint64_t job, Watcher watcher) override;
  void Decorate(v1::JobSummary& summary) override { newest_.Decorate(summary); }
  void DecorateFinished(v1::JobSummary& summary) override;
  std::unique_ptr<MetricReader> Read(uint64_t job) const override;
  void Choose(uint64_t job, const std::string& metric) override { newest_.Choose(job, metric); }
  bool IsFull(uint64_t) override { return false; }
  void Warm(uint64_t job) override;
  void Remove(uint64_t job) override;
  std::vector<uint64_t> Jobs() const override { return {}; }

 private:
  v1::MetricAck Write(const v1::MetricBatch& batch);

  const std::shared_ptr<MemoryMetrics> metrics_;
  JobWatchers<const v1::MetricBatch&> watchers_;
  NewestMetricsCache newest_;
  std::mutex mutex_;  // guards what follows
  std::set<uint64_t> removed_;
  WorkPool thread_{1};
};

}  // namespace muster::coordinator
