#include "client/compare/series.h"

#include <algorithm>

namespace muster::client {

void Series::ReplaceFrom(int64_t step) {
  std::erase_if(points_, [step](const Point& point) { return point.step >= step; });
}

void Series::Finish() {
  const auto earlier = [](const Point& a, const Point& b) { return a.step < b.step; };
  if (!std::is_sorted(points_.begin(), points_.end(), earlier)) {
    std::stable_sort(points_.begin(), points_.end(), earlier);
  }
  size_t kept = 0;
  for (const Point& point : points_) {
    if (kept > 0 && points_[kept - 1].step == point.step) --kept;
    points_[kept++] = point;
  }
  points_.resize(kept);
}

}  // namespace muster::client
