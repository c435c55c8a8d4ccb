// Samples in small files (local/sample_files.h). Owns one writer thread, which writes each batch at
// once and syncs nothing: after a power failure the newest samples may be missing. A full disk, or a
// writer that cannot keep up, costs samples and nothing else. Without running jobs it sleeps.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/base/rate_limited_log.h"
#include "coordinator/local/sample_files.h"
#include "coordinator/store_parts/newest_samples.h"
#include "coordinator/store_parts/sample_buckets.h"
#include "coordinator/stores/paths.h"
#include "coordinator/stores/sample_store.h"

namespace muster::coordinator {

// The files of all nodes by age, so that each node stays within its share. One thread.
class SampleFileTable {
 public:
  void Add(const SampleFile& file, uint64_t bytes);
  void Remove(const SampleFile& file);
  // Files that are too old at `now_ms`.
  std::vector<SampleFile> Expired(int64_t now_ms) const;
  // The oldest files of the node to delete so that at most `max_bytes` remain.
  std::vector<SampleFile> Surplus(const std::string& node_folder, uint64_t max_bytes) const;
  std::vector<SampleFile> OfJob(uint64_t job) const;

 private:
  // By age: begun, job, attempt.
  using Age = std::tuple<int64_t, uint64_t, uint32_t>;
  struct OfNode {
    uint64_t bytes = 0;
    std::array<std::map<Age, uint64_t>, kSampleTierCount> tiers;
  };
  static SampleFile FileOf(const std::string& node_folder, size_t tier, const Age& age);
  std::map<std::string, OfNode> nodes_;  // by folder
};

class LocalSampleStore final : public SampleStore {
 public:
  static constexpr size_t kWaitingMax = 20'000;  // batches; then the oldest are dropped
  static constexpr size_t kWaitingBytesMax = 64 << 20;

  explicit LocalSampleStore(const Paths& paths, uint64_t node_bytes_max = kSampleBytesOfNodeMax,
                            const common::Clock* clock = nullptr);
  ~LocalSampleStore() override { Stop(); }
  void Stop() override;

  void Append(v1::SampleBatch batch) override;
  std::vector<NewestSample> Newest(uint64_t job) const override;
  WatchToken Watch(uint64_t job, Watcher watcher) override;
  std::unique_ptr<SampleReader> Read(const SampleQuery& query) const override;
  void Remove(uint64_t job) override;
  void Expire() override;

 private:
  using BatchPointer = std::shared_ptr<const v1::SampleBatch>;
  using StreamKey = std::tuple<uint64_t, uint32_t, std::string>;  // job, attempt, node's folder
  struct OpenFile {
    SampleFile file;
    uint64_t bytes = 0;
  };
  struct Stream {
    std::array<OpenFile, kSampleTierCount> files;  // begun_ms 0: none yet
    std::vector<SampleBuckets> buckets;            // of the coarser tiers
    int64_t appended_ms = 0;                       // on the monotonic clock
  };
  struct Taken {
    std::vector<BatchPointer> batches;
    std::vector<uint64_t> removed;
    bool expire = false;
    bool stop = false;
  };

  void Run();
  // Waits for work; while buckets are open, at most until they are due.
  Taken TakeWork();
  void FindFiles();
  void Write(const v1::SampleBatch& batch);
  void WriteBucket(Stream& stream, size_t tier, const v1::SampleBucket& bucket);
  absl::Status AppendRecord(OpenFile& open, const std::string& record);
  // Ends the buckets of streams that have fallen silent, or of all streams.
  void EndBuckets(bool all);
  void RemoveNow(uint64_t job);
  void Delete(const std::vector<SampleFile>& files);

  const Paths paths_;
  const uint64_t node_bytes_max_;
  const common::SystemClock system_clock_;
  const common::Clock& clock_;

  // Used only by the writer thread.
  std::map<StreamKey, Stream> streams_;
  SampleFileTable table_;
  RateLimitedLog complaints_;

  NewestSamples newest_;
  JobWatchers<const v1::SampleBatch&> watchers_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::deque<BatchPointer> waiting_;
  size_t waiting_bytes_ = 0;
  std::vector<uint64_t> to_remove_;
  std::set<uint64_t> removed_;
  bool expire_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace muster::coordinator
