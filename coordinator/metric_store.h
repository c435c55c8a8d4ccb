// Training metrics: batches appended to one checksummed segment file per attempt, each exactly once
// by (attempt, rank, source, seq), and the newest values in memory for listings. Owns one writer
// thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "coordinator/paths.h"
#include "coordinator/watch_hub.h"
#include "muster/v1/job_service.pb.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

// The sender's end. Called on the writer's thread; must only enqueue.
class MetricUploader {
 public:
  virtual ~MetricUploader() = default;
  virtual void Consumed(size_t bytes) = 0;
  virtual void Acknowledge(const v1::MetricAck& ack) = 0;
};

class MetricStore {
 public:
  static constexpr int kSyncDelayMs = 100;
  static constexpr size_t kOpenFilesMax = 256;
  static constexpr size_t kNewestKept = 20'000;  // jobs whose newest values stay in memory

  MetricStore(const Paths& paths, std::function<void(const absl::Status&)> failed);
  ~MetricStore() { Stop(); }
  void Stop();

  // Any thread; never blocks.
  void Append(v1::MetricBatch batch, std::shared_ptr<MetricUploader> uploader);
  using Watcher = std::function<void(const v1::MetricBatch&)>;
  WatchToken Watch(uint64_t job, Watcher watcher);
  // Step and loss of the newest points, if the job has any.
  void Decorate(v1::JobSummary& summary);
  // All batches that are stored, attempt by attempt. Blocks on the disk.
  absl::StatusOr<std::vector<v1::MetricBatch>> Read(uint64_t job) const;
  // Reads what a restart forgot. Blocks on the disk.
  void Warm(uint64_t job);
  void Remove(uint64_t job);

 private:
  using SourceKey = std::tuple<uint32_t, std::string>;  // rank, source
  struct Queued {
    v1::MetricBatch batch;
    std::shared_ptr<MetricUploader> uploader;
  };
  struct Segment {
    common::UniqueFd fd;
    uint64_t bytes = 0;
    std::map<SourceKey, uint64_t> newest_seq;
    uint64_t used = 0;
    std::vector<std::pair<v1::MetricAck, std::weak_ptr<MetricUploader>>>
        acks;  // after the next sync
  };
  using SegmentKey = std::pair<uint64_t, uint32_t>;  // job, attempt
  struct Newest {
    int64_t step = -1;
    double loss = 0;
    bool has_loss = false;
  };

  void Run();
  bool Take(std::vector<Queued>& batch);
  absl::Status Write(Queued& queued);
  absl::StatusOr<Segment*> SegmentOf(const SegmentKey& key);
  absl::StatusOr<Segment> OpenSegment(const SegmentKey& key);
  absl::Status AppendPatiently(Segment& segment, const std::string& record);
  absl::Status Sync();
  void Learn(const v1::MetricBatch& batch);
  void Notify(const v1::MetricBatch& batch);

  const Paths paths_;
  const std::function<void(const absl::Status&)> failed_;

  // The writer's thread.
  std::map<SegmentKey, Segment> segments_;
  std::set<SegmentKey> dirty_;
  int64_t sync_due_ms_ = 0;
  uint64_t uses_ = 0;

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::vector<Queued> queue_;
  std::map<uint64_t, Newest> newest_;
  std::unordered_map<uint64_t, std::vector<std::weak_ptr<Watcher>>> watchers_;
  std::set<uint64_t> removed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace muster::coordinator
