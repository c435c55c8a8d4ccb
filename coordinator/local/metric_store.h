// Metrics as segments (coordinator/segments), one stream per attempt, with the newest values in a
// file next to them. Owns one writer thread, which waits while the disk is full or the process is
// out of descriptors; if a stream's file fails, only that stream waits, in its workers' spools.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/base/rate_limited_log.h"
#include "coordinator/local/failing_streams.h"
#include "coordinator/local/metric_quota.h"
#include "coordinator/local/metric_stream_file.h"
#include "coordinator/local/open_streams.h"
#include "coordinator/store_parts/metric_sources.h"
#include "coordinator/store_parts/newest_metrics.h"
#include "coordinator/store_parts/queued_batch.h"
#include "coordinator/store_parts/store_queue.h"
#include "coordinator/stores/metric_store.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

class LocalMetricStore final : public MetricStore {
 public:
  static constexpr int kSyncDelayMs = 100;
  static constexpr size_t kKnownStreamsMax = 4'096;  // whose sources' positions are in memory

  explicit LocalMetricStore(const Paths& paths, DiskUse use = {});
  ~LocalMetricStore() override { Stop(); }
  void Stop() override;

  void Append(v1::MetricBatch batch, std::shared_ptr<MetricUploader> uploader) override;
  WatchToken Watch(uint64_t job, Watcher watcher) override;
  void Decorate(v1::JobSummary& summary) override { newest_.Decorate(summary); }
  void DecorateFinished(v1::JobSummary& summary) override;
  std::unique_ptr<MetricReader> Read(uint64_t job) const override;
  void Choose(uint64_t job, const std::string& metric) override { newest_.Choose(job, metric); }
  bool IsFull(uint64_t job) override { return quota_.IsFull(job); }
  void Warm(uint64_t job) override;
  void Remove(uint64_t job) override;
  std::vector<uint64_t> Jobs() const override { return JobsBelow(paths_.MetricRoot()); }

 private:
  struct Stream {
    MetricStreamFile metrics;
    // Sent after the next sync.
    std::vector<std::pair<v1::MetricAck, std::weak_ptr<MetricUploader>>> acks;
    SegmentWriter& File() { return metrics.File(); }
  };
  using StreamKey = std::pair<uint64_t, uint32_t>;  // job, attempt

  void Run();
  void Handle(QueuedBatch& queued);
  absl::Status Write(QueuedBatch& queued);
  // A batch that does not fit is acknowledged, too, but only its newest values are kept.
  absl::Status AppendIfRoom(Stream& stream, const QueuedBatch& queued);
  absl::StatusOr<Stream> Open(const StreamKey& key);
  bool Synced(const StreamKey& key, Stream& stream);
  void StreamFailed(const StreamKey& key, Stream* stream, const absl::Status& why);
  int64_t DueMs() const { return EarlierDue(streams_.DueMs(), failing_.DueMs()); }
  // Saves the newest values next to the segments, best effort: they only decorate job summaries.
  void SaveNewest(uint64_t job);
  // Reads the saved values. A coordinator that was killed may have left none, or older ones.
  std::optional<NewestMetrics> LoadNewest(uint64_t job) const;
  // Finds the newest values in the segments.
  absl::StatusOr<NewestMetrics> FindNewest(uint64_t job) const;
  void Relearn(uint64_t job);

  const Paths paths_;

  StoreQueue<QueuedBatch> queue_;
  // The writer's thread.
  OpenStreams<StreamKey, Stream> streams_;
  FailingStreams<StreamKey, MetricUploader> failing_;
  bool is_leaving_ = false;  // stopping without room; the workers still have what is not synced
  RateLimitedLog refusals_;
  MetricQuota quota_;

  JobWatchers<const v1::MetricBatch&> watchers_;
  NewestMetricsCache newest_;
  std::mutex mutex_;  // guards what follows
  std::set<uint64_t> removed_;
  std::thread thread_;
};

}  // namespace muster::coordinator
