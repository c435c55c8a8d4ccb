// Samples of running attempts in three tiers: as sent, for an hour; in buckets of ten seconds, for
// a day; in buckets of a minute, for 30 days. A bucket keeps the last, the lowest and the highest
// of each number. At most 64 MiB are kept for each node; the oldest are deleted first. Samples may
// be lost: nothing is acknowledged, and a store that cannot keep up or has no room drops some.
//
// Append, Newest, Watch, Remove and Expire: any thread, never block. Read is slow: on the work
// pools' threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/stores/job_watchers.h"
#include "muster/v1/sample.pb.h"

namespace muster::coordinator {

// A tier and how long it is kept.
struct SampleTierRule {
  v1::SampleTier tier;
  int64_t bucket_ms;  // 0: as sent
  int64_t kept_ms;
};
inline constexpr SampleTierRule kSampleTiers[] = {
    {v1::SAMPLE_TIER_SECOND, 0, 3'600'000},
    {v1::SAMPLE_TIER_TEN_SECONDS, 10'000, 24 * 3'600'000},
    {v1::SAMPLE_TIER_MINUTE, 60'000, int64_t{30} * 24 * 3'600'000},
};
// limit: samples: samples kept of a node; the oldest go first
inline constexpr uint64_t kSampleBytesOfNodeMax = 64 << 20;
// A bucket without a successor can be read after this time at the latest.
inline constexpr int64_t kSampleBucketLateMs = 10'000;

struct SampleQuery {
  uint64_t job = 0;
  std::optional<uint32_t> attempt;  // absent: all
  std::string node;                 // empty: all
  v1::SampleTier tier = v1::SAMPLE_TIER_SECOND;
  int64_t since_ms = 0;  // on the nodes' clocks
};

// Returns buckets by attempt, then by node, then in the order of their arrival. One thread at a
// time.
class SampleReader {
 public:
  virtual ~SampleReader() = default;
  // False: there are no more.
  virtual absl::StatusOr<bool> Next(v1::SampleBucket& bucket) = 0;
};

struct NewestSample {
  std::shared_ptr<const v1::SampleBatch> batch;
  int64_t age_ms = 0;  // since it arrived
};

class SampleStore {
 public:
  virtual ~SampleStore() = default;
  // Stops its threads; the next store that opens the files has everything that was appended.
  virtual void Stop() = 0;

  // The caller has checked the batch (gates/sample_gate.h). Batches of a removed job are dropped.
  virtual void Append(v1::SampleBatch batch) = 0;
  // The newest batch of each node of the job's newest attempt that has sent any within the last
  // minute, in order of node; from memory.
  virtual std::vector<NewestSample> Newest(uint64_t job) const = 0;
  // Calls `watcher` for each batch that is appended.
  using Watcher = JobWatchers<const v1::SampleBatch&>::Watcher;
  virtual WatchToken Watch(uint64_t job, Watcher watcher) = 0;
  // The store outlives the reader.
  virtual std::unique_ptr<SampleReader> Read(const SampleQuery& query) const = 0;
  // Deletes the job's samples soon; later ones are dropped.
  virtual void Remove(uint64_t job) = 0;
  // Deletes expired samples soon. The coordinator calls it from time to time.
  virtual void Expire() = 0;
};

}  // namespace muster::coordinator
