#include "coordinator/curves/followed_line.h"

#include <algorithm>

namespace muster::coordinator {

void FollowedLine::Learn(const v1::MetricBatch& batch) {
  for (const v1::MetricPoint& point : batch.points()) {
    const auto [entry, is_new] = first_steps_.emplace(batch.attempt(), point.step());
    if (!is_new) entry->second = std::min(entry->second, point.step());
  }
}

void FollowedLine::Seal() {
  int64_t least = INT64_MAX;
  for (auto attempt = first_steps_.rbegin(); attempt != first_steps_.rend(); ++attempt) {
    least = std::min(least, attempt->second);
    replaced_from_[attempt->first] = least;
  }
}

bool FollowedLine::Knows(uint32_t attempt, int64_t step) const {
  const auto known = first_steps_.find(attempt);
  return known != first_steps_.end() && known->second <= step;
}

bool FollowedLine::IsReplaced(uint32_t attempt, int64_t step) const {
  const auto later = replaced_from_.upper_bound(attempt);
  return later != replaced_from_.end() && step >= later->second;
}

}  // namespace muster::coordinator
