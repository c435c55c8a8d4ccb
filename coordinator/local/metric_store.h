// Metrics as segments (coordinator/segments), one stream per attempt, with the newest values in a
// file next to them. Owns one writer thread, which waits while the disk is full or the process is
// out of descriptors; a disk error stops the daemon.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/local/metric_quota.h"
#include "coordinator/local/metric_stream_file.h"
#include "coordinator/local/open_streams.h"
#include "coordinator/local/store_queue.h"
#include "coordinator/paths.h"
#include "coordinator/said_rarely.h"
#include "coordinator/stores/metric_sources.h"
#include "coordinator/stores/metric_store.h"
#include "coordinator/stores/newest_metrics.h"

namespace muster::coordinator {

class LocalMetricStore final : public MetricStore {
 public:
  static constexpr int kSyncDelayMs = 100;
  static constexpr size_t kKnownStreamsMax = 4'096;  // whose sources' positions are in memory

  // `failed` is called once, on the writer's thread, when the disk can no longer be trusted.
  LocalMetricStore(const Paths& paths, std::function<void(const absl::Status&)> failed,
                   DiskUse use = {});
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

 private:
  struct Queued {
    v1::MetricBatch batch;
    std::shared_ptr<MetricUploader> uploader;
  };
  struct Stream {
    MetricStreamFile metrics;
    // Sent after the next sync.
    std::vector<std::pair<v1::MetricAck, std::weak_ptr<MetricUploader>>> acks;
    SegmentWriter& File() { return metrics.File(); }
  };
  using StreamKey = std::pair<uint64_t, uint32_t>;  // job, attempt

  void Run();
  absl::Status Write(Queued& queued);
  // A batch that has no room is acknowledged, too: only its newest values are known.
  absl::Status AppendIfRoom(Stream& stream, const v1::MetricBatch& batch);
  void Refuse(Queued& queued);
  absl::StatusOr<Stream> Open(const StreamKey& key);
  bool Synced(const StreamKey& key, Stream& stream);
  // Saves the newest values next to the segments, best effort: they only decorate job summaries.
  void SaveNewest(uint64_t job);
  // Reads the saved values. A coordinator that was killed may have left none, or older ones.
  std::optional<NewestMetrics> LoadNewest(uint64_t job) const;
  // Finds the newest values in the segments.
  absl::StatusOr<NewestMetrics> FindNewest(uint64_t job) const;
  void Relearn(uint64_t job);

  const Paths paths_;
  const std::function<void(const absl::Status&)> failed_;

  StoreQueue<Queued> queue_;
  // The writer's thread.
  OpenStreams<StreamKey, Stream> streams_;
  SaidRarely refusals_;
  MetricQuota quota_;

  JobWatchers<const v1::MetricBatch&> watchers_;
  NewestMetricsCache newest_;
  std::mutex mutex_;  // guards what follows
  std::set<uint64_t> removed_;
  std::thread thread_;
};

}  // namespace muster::coordinator
