// Batches of samples for tests of stores.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "coordinator/stores/sample_store.h"

namespace muster::coordinator {

inline v1::SampleBatch Samples(uint64_t job, int64_t time_ms, float cpu_cores,
                               const std::string& node = "node1", uint32_t attempt = 0) {
  v1::SampleBatch batch;
  batch.set_job(job);
  batch.set_attempt(attempt);
  batch.set_node(node);
  batch.set_time_ms(time_ms);
  batch.set_interval_ms(1'000);
  v1::RankSample& rank = *batch.add_ranks();
  rank.set_rank(3);
  rank.set_cpu_cores(cpu_cores);
  rank.set_resident_bytes(static_cast<uint64_t>(cpu_cores * 1'000));
  return batch;
}

inline std::vector<v1::SampleBucket> ReadSamples(const SampleStore& store,
                                                 const SampleQuery& query) {
  std::vector<v1::SampleBucket> buckets;
  const auto reader = store.Read(query);
  v1::SampleBucket bucket;
  while (true) {
    const absl::StatusOr<bool> found = reader->Next(bucket);
    if (!found.ok() || !*found) return buckets;
    buckets.push_back(bucket);
  }
}

// Stores write soon, not at once: reads until there are so many.
inline std::vector<v1::SampleBucket> WaitForSamples(const SampleStore& store,
                                                    const SampleQuery& query, size_t count) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::vector<v1::SampleBucket> buckets = ReadSamples(store, query);
  while (buckets.size() != count && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
    buckets = ReadSamples(store, query);
  }
  return buckets;
}

}  // namespace muster::coordinator
