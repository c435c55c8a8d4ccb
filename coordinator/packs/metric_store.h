// Metrics in packs: a lane per attempt with one stream. A batch is acknowledged once its pack is recorded; watchers see it
// at once. The newest values, which decorate summaries, are recorded with each pack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/base/rate_limited_log.h"
#include "coordinator/packs/packs.h"
#include "coordinator/store_parts/metric_sources.h"
#include "coordinator/store_parts/newest_metrics.h"
#include "coordinator/store_parts/queued_batch.h"
#include "coordinator/store_parts/segment_metrics.h"
#include "coordinator/stores/metric_store.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

inline PackLane MetricLane(uint64_t job, uint32_t attempt) {
  return {.kind = PackKind::kMetrics, .job = job, .attempt = attempt, .node = {}};
}

class PackMetricStore final : public MetricStore {
 public:
  // `quota_bytes`: of one job; 0: no limit.
  PackMetricStore(std::shared_ptr<Packs> packs, const Paths& paths, uint64_t quota_bytes = 0);
  ~PackMetricStore() override { Stop(); }
  // Of both stores: they share the writer.
  void Stop() override { packs_->writer.Stop(); }

  void Append(v1::MetricBatch batch, std::shared_ptr<MetricUploader> uploader) override;
  WatchToken Watch(uint64_t job, Watcher watcher) override;
  void Decorate(v1::JobSummary& summary) override { newest_.Decorate(summary); }
  void DecorateFinished(v1::JobSummary& summary) override;
  std::unique_ptr<MetricReader> Read(uint64_t job) const override;
  void Choose(uint64_t job, const std::string& metric) override { newest_.Choose(job, metric); }
  bool IsFull(uint64_t job) override;
  void Warm(uint64_t job) override;
  void Remove(uint64_t job) override;
  std::vector<uint64_t> Jobs() const override;
  // RecordedPack::note of a job whose metrics are in files. May be slow.
  std::string NoteFor(uint64_t job);

 private:
  void Write(PackWriter::Lane& lane, QueuedBatch& queued);
  absl::Status Store(PackWriter::Lane& lane, const QueuedBatch& queued);
  absl::StatusOr<PackWriter::LaneStart> Open(const PackLane& lane);
  // As recorded with the newest pack; else of all batches.
  absl::StatusOr<NewestMetrics> FindNewest(uint64_t job) const;
  void Add(uint64_t job, uint64_t bytes);

  const std::shared_ptr<Packs> packs_;
  const Paths paths_;
  const uint64_t quota_bytes_;
  RateLimitedLog refusals_;
  JobWatchers<const v1::MetricBatch&> watchers_;
  NewestMetricsCache newest_;
  mutable std::mutex mutex_;            // guards what follows
  std::map<uint64_t, uint64_t> bytes_;  // of jobs that have an open lane
};

}  // namespace muster::coordinator
