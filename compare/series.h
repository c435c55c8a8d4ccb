// The points of one metric of one run, by step. A million points take 16 MB. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::compare {

struct Point {
  int64_t step = 0;
  double value = 0;
  bool operator==(const Point&) const = default;
};

class Series {
 public:
  void Add(int64_t step, double value) { points_.push_back({step, value}); }
  // These three return how many points are gone.
  // A restart: what was added before is replaced from `step` on.
  size_t ReplaceFrom(int64_t step);
  size_t Clear();
  // Sorts by step; if several points have the same step, the one added last stays.
  size_t Finish();
  // After Finish: in order of step, each once.
  const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;
};

}  // namespace muster::compare
