// Samples in memory, in the three tiers. What was appended can be read at once.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/store_parts/newest_samples.h"
#include "coordinator/store_parts/sample_buckets.h"
#include "coordinator/stores/sample_store.h"

namespace muster::coordinator {

// Outlives the stores that are opened on it.
struct MemorySamples {
  using Key = std::tuple<uint64_t, uint32_t, std::string>;  // job, attempt, node
  struct Stream {
    std::array<std::vector<v1::SampleBucket>, std::size(kSampleTiers)> tiers;
    std::vector<SampleBuckets> open;  // of the coarser tiers
  };

  std::mutex mutex;  // guards what follows
  std::map<Key, Stream> streams;
};

class MemorySampleStore final : public SampleStore {
 public:
  explicit MemorySampleStore(std::shared_ptr<MemorySamples> samples)
      : samples_(std::move(samples)) {}
  void Stop() override;

  void Append(v1::SampleBatch batch) override;
  std::vector<NewestSample> Newest(uint64_t job) const override;
  WatchToken Watch(uint64_t job, Watcher watcher) override;
  std::unique_ptr<SampleReader> Read(const SampleQuery& query) const override;
  void Remove(uint64_t job) override;
  void Expire() override {}

 private:
  const std::shared_ptr<MemorySamples> samples_;
  NewestSamples newest_;
  JobWatchers<const v1::SampleBatch&> watchers_;
  std::set<uint64_t> removed_;  // guarded by samples_->mutex
};

}  // namespace muster::coordinator
