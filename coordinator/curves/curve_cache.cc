#include "coordinator/curves/curve_cache.h"

#include <utility>

namespace muster::coordinator {

std::shared_ptr<SharedCurves> CurveCache::Take(uint64_t job) {
  std::lock_guard lock(mutex_);
  if (const auto* curves = jobs_.Find(job); curves != nullptr) return *curves;
  CurveChoice all;
  all.buckets = kBuckets;
  return jobs_.Put(job, std::make_shared<SharedCurves>(metrics_, job, std::move(all)), 0);
}

void CurveCache::Grew(SharedCurves& curves, size_t size) {
  std::lock_guard lock(mutex_);
  const auto* kept = jobs_.Peek(curves.job);
  if (kept != nullptr && kept->get() == &curves) jobs_.SetWeight(curves.job, size);
}

bool CurveCache::BeginLook() {
  if (looks_.fetch_add(1) < kLooksMax) return true;
  looks_.fetch_sub(1);
  return false;
}

}  // namespace muster::coordinator
