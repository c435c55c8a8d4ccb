// Curves of the jobs that people look at, kept so that the next look reads only what is new. Any
// thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "common/base/lru_map.h"
#include "coordinator/curves/job_curves.h"

namespace muster::coordinator {

// A job's curves, and the lock that a thread holds while it reads more of them.
struct SharedCurves {
  SharedCurves(const MetricStore& metrics, uint64_t of, CurveChoice choice)
      : job(of), curves(metrics, of, std::move(choice)) {}
  const uint64_t job;
  std::mutex mutex;  // guards what follows
  JobCurves curves;
};

class CurveCache {
 public:
  // Buckets of each curve in the cache, if its job has room: enough for a chart as wide as a
  // screen.
  static constexpr size_t kBuckets = 4'096;
  // Buckets of all jobs, some 100 bytes each. The most recently used jobs stay, the newest one
  // always.
  // limit: curves: buckets kept, some 100 bytes each; the least recently used is read again
  static constexpr size_t kBucketsMax = 500'000;
  // limit: curves: jobs whose curves are kept; the least recently used is read again
  static constexpr size_t kJobsMax = 16;

  // limit: curves: closer looks at a time; others wait
  static constexpr size_t kLooksMax = 4;

  explicit CurveCache(const MetricStore& metrics) : metrics_(metrics) {}

  // All metrics and steps of a job.
  std::shared_ptr<SharedCurves> Take(uint64_t job);
  // Call it when more was read and the curves have grown to `size` buckets.
  void Grew(SharedCurves& curves, size_t size);

  // Call it before reading separate curves for a zoomed range. False: too many such reads are in
  // progress.
  bool BeginLook();
  void EndLook() { looks_.fetch_sub(1); }

 private:
  const MetricStore& metrics_;
  std::atomic<size_t> looks_ = 0;
  std::mutex mutex_;  // guards what follows
  // By job; their weight is the buckets they had when they were last read.
  common::LruMap<uint64_t, std::shared_ptr<SharedCurves>> jobs_{kJobsMax, kBucketsMax};
};

}  // namespace muster::coordinator
