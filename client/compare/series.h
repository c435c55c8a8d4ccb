// The points of one metric of one run, by step. A million points take 16 MB. One thread.
#pragma once

#include <cstdint>
#include <vector>

namespace muster::client {

struct Point {
  int64_t step = 0;
  double value = 0;
  bool operator==(const Point&) const = default;
};

class Series {
 public:
  void Add(int64_t step, double value) { points_.push_back({step, value}); }
  // A restart: what was added before is replaced from `step` on.
  void ReplaceFrom(int64_t step);
  void Clear() { points_.clear(); }
  // Sorts by step; of several points with the same step the one added last stays.
  void Finish();
  // After Finish: in order of step, each once.
  const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;
};

}  // namespace muster::client
