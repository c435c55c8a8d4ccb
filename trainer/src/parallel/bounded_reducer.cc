// See bounded_reducer.h.
#include "parallel/bounded_reducer.h"

#include <algorithm>
#include <mutex>
#include <tuple>

namespace muster {

Buckets bounded(const Buckets& buckets) {
  Buckets parts;
  for (const auto& bucket : buckets) {
    for (size_t begin = 0; begin < bucket.size(); begin += kBucketTensorsMax) {
      const size_t end = std::min(bucket.size(), begin + kBucketTensorsMax);
      parts.emplace_back(bucket.begin() + static_cast<std::ptrdiff_t>(begin),
                         bucket.begin() + static_cast<std::ptrdiff_t>(end));
    }
  }
  return parts;
}

// Source: c10d::Reducer::rebuild_buckets.
bool BoundedReducer::rebuild(int64_t first_bucket_bytes, bool is_bounded) {
  if (!is_bounded || params_.size() <= kBucketTensorsMax) return rebuild_buckets();
  const std::lock_guard<std::mutex> lock(mutex_);
  ensure_prior_reduction_finished();
  if (!should_rebuild_buckets() || rebuilt_params_.empty()) return false;
  TORCH_CHECK(rebuilt_param_indices_.size() == params_.size(), "a parameter is in no bucket");
  const std::vector<size_t> limits = {static_cast<size_t>(first_bucket_bytes),
                                      static_cast<size_t>(bucket_bytes_cap_)};
  Buckets buckets = bounded(std::get<0>(c10d::compute_bucket_assignment_by_size(
      rebuilt_params_, limits, expect_sparse_gradients_, rebuilt_param_indices_, logger_)));
  // Rank 0's.
  sync_bucket_indices(buckets);
  has_rebuilt_bucket_ = true;
  rebuilt_params_.clear();
  rebuilt_param_indices_.clear();
  initialize_buckets(std::move(buckets));
  return true;
}

}  // namespace muster
