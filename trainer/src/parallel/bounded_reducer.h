// torch's Reducer, with a bound on the number of tensors in a bucket: it makes the views of a bucket in
// time that grows with the square of their number (c10d's initialize_bucket_views copies the list of
// them for each), 2.7 s for 10,000. Training thread.
#pragma once

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <cstddef>
#include <vector>

namespace muster {

using Buckets = std::vector<std::vector<size_t>>;

// limit: tensors in a bucket of gradients, at which it ends and the next begins.
inline constexpr size_t kBucketTensorsMax = 512;

// The same order, in buckets of at most kBucketTensorsMax.
Buckets bounded(const Buckets& buckets);

class BoundedReducer : public c10d::Reducer {
 public:
  using c10d::Reducer::Reducer;

  // Call in place of rebuild_buckets. `is_bounded` is false for a run whose first buckets were larger:
  // the sums of three or more ranks depend on them.
  bool rebuild(int64_t first_bucket_bytes, bool is_bounded);
};

}  // namespace muster
