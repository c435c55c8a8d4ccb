// Folds the batches of one attempt and node into buckets of time. Shared by the implementations of
// SampleStore. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "coordinator/stores/sample_store.h"
#include "muster/v1/sample.pb.h"

namespace muster::coordinator {

class SampleBuckets {
 public:
  explicit SampleBuckets(const SampleTierRule& rule) : rule_(rule) {}

  // Returns the previous bucket if this batch begins a new one.
  std::optional<v1::SampleBucket> Add(const v1::SampleBatch& batch);
  // Closes and returns the open bucket, if there is one.
  std::optional<v1::SampleBucket> Take();
  bool IsOpen() const { return bucket_.batches() > 0; }

 private:
  const SampleTierRule rule_;
  int64_t number_ = 0;
  v1::SampleBucket bucket_;
};

}  // namespace muster::coordinator
