// The order in which a pass unshards the units: a prediction for the next pass. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace muster {

class UnitOrder {
 public:
  // Starts a pass. An empty one is not remembered.
  void restart() {
    if (!current_.empty()) previous_ = std::move(current_);
    current_.clear();
  }
  void visit(int unit) { current_.push_back(unit); }
  // Used until the first pass has ended.
  void guess(std::vector<int> order) {
    if (previous_.empty()) previous_ = std::move(order);
  }
  // The unit that followed this one in the previous pass; -1 if unknown.
  int after(int unit) const {
    // Passes are usually alike, so look at the same position first.
    const size_t place = current_.size();
    if (place >= 1 && place < previous_.size() && previous_[place - 1] == unit) {
      return previous_[place];
    }
    const auto found = std::find(previous_.begin(), previous_.end(), unit);
    return found == previous_.end() || found + 1 == previous_.end() ? -1 : *(found + 1);
  }
  const std::vector<int>& current() const { return current_; }

 private:
  std::vector<int> previous_, current_;
};

}  // namespace muster
