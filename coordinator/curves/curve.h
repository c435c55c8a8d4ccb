// A metric as a chart draws it: its points in buckets of steps, each with its last, lowest and
// highest value. Buckets are a power of two wide and start at multiples of it, so a curve that
// grows keeps its buckets until all are joined in pairs. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "muster/v1/job_service.pb.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

struct StepRange {
  int64_t from = INT64_MIN;
  int64_t to = INT64_MAX;  // inclusive
  bool Has(int64_t step) const { return from <= step && step <= to; }
};

class CurveBuckets {
 public:
  // Keeps at most `most` buckets, but at least two if there are steps of both signs.
  explicit CurveBuckets(size_t most) : most_(most) {}

  void Add(const v1::MetricPoint& point);
  // Sets a new limit on the number of buckets.
  void Limit(size_t most);
  size_t size() const { return buckets_.size(); }

  // Whether these buckets are as fine as `most` buckets of the range can be.
  bool Suffices(const StepRange& range, size_t most) const;
  // The buckets that overlap the range, joined until there are at most `most`. Fills all but name
  // and rank.
  v1::Curve Draw(const StepRange& range, size_t most) const;

 private:
  struct Bucket {
    int64_t step = 0;  // of the last point
    int64_t time_ms = 0;
    double last = 0;
    double min = 0;  // NaN only if all values are
    double max = 0;
    uint64_t points = 0;
  };
  using Buckets = std::map<int64_t, Bucket>;  // by step >> shift
  using Touched = std::pair<Buckets::const_iterator, Buckets::const_iterator>;

  static void Join(const Bucket& later, Bucket& bucket);
  static Buckets Halved(const Buckets& buckets);
  Touched Within(const StepRange& range) const;

  size_t most_;
  Buckets buckets_;
  int shift_ = 0;
};

}  // namespace muster::coordinator
