// Training metrics: batches appended to one checksummed segment file per attempt, each exactly once
// by (attempt, rank, source, seq), and the newest values in memory for listings. Owns one writer
// thread, which waits while the disk has no room or the process no descriptors; a disk error ends
// the daemon.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files.h"
#include "coordinator/job_watchers.h"
#include "coordinator/metric_reader.h"
#include "coordinator/paths.h"
#include "coordinator/said_rarely.h"
#include "coordinator/store_queue.h"
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
  static constexpr size_t kKnownSegmentsMax = 4'096;  // whose sources' places are in memory
  static constexpr size_t kNewestKept = 20'000;       // jobs whose newest values stay in memory

  // `open_max`: segments whose files are open at once.
  MetricStore(const Paths& paths, std::function<void(const absl::Status&)> failed,
              size_t open_max = 256);
  ~MetricStore() { Stop(); }
  void Stop();

  // Any thread; never blocks.
  void Append(v1::MetricBatch batch, std::shared_ptr<MetricUploader> uploader);
  using Watcher = JobWatchers<const v1::MetricBatch&>::Watcher;
  WatchToken Watch(uint64_t job, Watcher watcher);
  // Step and loss of the newest points, if the job has any that are in memory.
  void Decorate(v1::JobSummary& summary);
  // The same, also of those that a restart forgot, which a finished job's row may lack: points come
  // after its end, too. Blocks on the disk.
  void DecorateFinished(v1::JobSummary& summary);
  // All batches that are stored. Blocks on the disk.
  MetricReader Read(uint64_t job) const { return MetricReader(paths_, job); }
  // Reads what a restart forgot of a job. Blocks on the disk.
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

    void Take(const v1::MetricBatch& batch);
  };

  void Run();
  absl::Status Write(Queued& queued);
  void Refuse(Queued& queued);
  // OK, or why it cannot be the next batch of its source.
  absl::Status CheckNext(const Segment& segment, const v1::MetricBatch& batch) const;
  absl::StatusOr<Segment*> SegmentOf(const SegmentKey& key);
  absl::Status OpenSegment(const SegmentKey& key);
  absl::Status Append(Segment& segment, const std::string& record);
  absl::Status Sync();
  // Closes the files that were not used for longest until fewer than `most` are open.
  absl::Status CloseIdle(size_t most);
  void Learn(const v1::MetricBatch& batch);
  // Leaves the newest values beside the segments. They are no promise: a row of `ls` is.
  void SaveNewest(uint64_t job);
  // From there. A coordinator that was killed may have left none, or older ones.
  std::optional<Newest> LoadNewest(uint64_t job) const;
  // From the segments.
  absl::StatusOr<Newest> FindNewest(uint64_t job) const;
  void Keep(uint64_t job, const Newest& newest);
  void Relearn(uint64_t job);

  const Paths paths_;
  const std::function<void(const absl::Status&)> failed_;
  const size_t open_max_;

  // The writer's thread.
  std::map<SegmentKey, Segment> segments_;
  std::set<SegmentKey> dirty_;
  int64_t sync_due_ms_ = 0;
  uint64_t uses_ = 0;
  std::map<uint64_t, SegmentKey> open_;  // those with open files, by their last use
  SaidRarely refusals_;

  StoreQueue<Queued> queue_{"metrics"};
  JobWatchers<const v1::MetricBatch&> watchers_;
  std::mutex mutex_;  // guards what follows
  std::map<uint64_t, Newest> newest_;
  std::set<uint64_t> removed_;
  std::thread thread_;
};

}  // namespace muster::coordinator
