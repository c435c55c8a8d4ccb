#include "coordinator/curves/curve.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace muster::coordinator {
namespace {

// Halving further joins nothing, because only the sign of a step is left.
constexpr int kShiftMax = 63;

}  // namespace

void CurveBuckets::Add(const v1::MetricPoint& point) {
  const Bucket one = {.step = point.step(),
                      .time_ms = point.time_ms(),
                      .last = point.value(),
                      .min = point.value(),
                      .max = point.value(),
                      .points = 1};
  const int64_t key = point.step() >> shift_;
  // New points are nearly always at the end.
  Join(one, buckets_.try_emplace(buckets_.end(), key)->second);
  Limit(most_);
}

void CurveBuckets::Limit(size_t most) {
  most_ = most;
  for (; buckets_.size() > most_ && shift_ < kShiftMax; ++shift_) buckets_ = Halved(buckets_);
}

void CurveBuckets::Join(const Bucket& later, Bucket& bucket) {
  if (bucket.points == 0) {
    bucket = later;
    return;
  }
  // If two points have the same step, the later one counts.
  if (later.step >= bucket.step) {
    bucket.step = later.step;
    bucket.time_ms = later.time_ms;
    bucket.last = later.last;
  }
  bucket.min = std::fmin(bucket.min, later.min);
  bucket.max = std::fmax(bucket.max, later.max);
  bucket.points += later.points;
}

CurveBuckets::Buckets CurveBuckets::Halved(const Buckets& buckets) {
  Buckets halved;
  for (const auto& [key, bucket] : buckets) {
    Join(bucket, halved.try_emplace(halved.end(), key >> 1)->second);
  }
  return halved;
}

CurveBuckets::Touched CurveBuckets::Within(const StepRange& range) const {
  if (range.from > range.to) return {buckets_.end(), buckets_.end()};
  return {buckets_.lower_bound(range.from >> shift_), buckets_.upper_bound(range.to >> shift_)};
}

bool CurveBuckets::Suffices(const StepRange& range, size_t most) const {
  if (shift_ == 0) return true;
  // Finer buckets would be at most twice as many, since each of these has at most two halves; that
  // would be too many.
  const auto [first, last] = Within(range);
  return 2 * static_cast<size_t>(std::distance(first, last)) > most;
}

v1::Curve CurveBuckets::Draw(const StepRange& range, size_t most) const {
  const auto [first, last] = Within(range);
  Buckets drawn(first, last);
  int shift = shift_;
  for (; drawn.size() > most && shift < kShiftMax; ++shift) drawn = Halved(drawn);
  v1::Curve curve;
  curve.set_steps_per_bucket(int64_t{1} << std::min(shift, kShiftMax - 1));
  uint64_t points = 0;
  for (const auto& [key, bucket] : drawn) {
    points += bucket.points;
    curve.add_steps(bucket.step);
    curve.add_times_ms(bucket.time_ms);
    curve.add_last(bucket.last);
    if (shift == 0) continue;
    curve.add_min(bucket.min);
    curve.add_max(bucket.max);
  }
  curve.set_points(points);
  return curve;
}

}  // namespace muster::coordinator
