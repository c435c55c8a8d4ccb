// The newest batch of each node, by job. Shared by the implementations of SampleStore. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "coordinator/stores/sample_store.h"

namespace muster::coordinator {

class NewestSamples {
 public:
  static constexpr int64_t kFreshMs = 60'000;

  void Take(std::shared_ptr<const v1::SampleBatch> batch, int64_t now_ms);
  std::vector<NewestSample> Find(uint64_t job, int64_t now_ms) const;
  void Forget(uint64_t job);
  // Forgets batches older than kFreshMs.
  void DropStale(int64_t now_ms);

 private:
  struct Arrived {
    std::shared_ptr<const v1::SampleBatch> batch;
    int64_t at_ms = 0;
  };
  struct OfJob {
    uint32_t attempt = 0;
    std::map<std::string, Arrived> nodes;
  };

  mutable std::mutex mutex_;  // guards what follows
  std::unordered_map<uint64_t, OfJob> jobs_;
};

}  // namespace muster::coordinator
