#include "compare/series.h"

#include <algorithm>
#include <utility>

namespace muster::compare {

size_t Series::ReplaceFrom(int64_t step) {
  return std::erase_if(points_, [step](const Point& point) { return point.step >= step; });
}

size_t Series::Clear() { return std::exchange(points_, {}).size(); }

size_t Series::Finish() {
  const auto earlier = [](const Point& a, const Point& b) { return a.step < b.step; };
  if (!std::is_sorted(points_.begin(), points_.end(), earlier)) {
    std::stable_sort(points_.begin(), points_.end(), earlier);
  }
  size_t kept = 0;
  for (const Point& point : points_) {
    if (kept > 0 && points_[kept - 1].step == point.step) --kept;
    points_[kept++] = point;
  }
  const size_t gone = points_.size() - kept;
  points_.resize(kept);
  return gone;
}

}  // namespace muster::compare
