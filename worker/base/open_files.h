// Limits how many files of one kind are open at a time: the least recently used one is closed, and
// reopened when needed. So any number of ranks fits under a small `ulimit -n`. Any one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <utility>

namespace muster::worker {

class OpenFiles {
 public:
  explicit OpenFiles(size_t max) : max_(max) {}

  // `owner` has just used its files, which `close` closes. May close those of other owners.
  void Use(const void* owner, const std::function<void()>& close) {
    if (auto known = places_.find(owner); known != places_.end()) {
      order_.splice(order_.begin(), order_, known->second);
      return;
    }
    order_.emplace_front(owner, close);
    places_[owner] = order_.begin();
    while (order_.size() > max_) {
      order_.back().second();
      places_.erase(order_.back().first);
      order_.pop_back();
    }
  }
  // Call before the owner is destroyed.
  void Forget(const void* owner) {
    auto known = places_.find(owner);
    if (known == places_.end()) return;
    order_.erase(known->second);
    places_.erase(known);
  }
  size_t size() const { return order_.size(); }

 private:
  const size_t max_;
  std::list<std::pair<const void*, std::function<void()>>> order_;  // most recently used first
  std::map<const void*, decltype(order_)::iterator> places_;
};

}  // namespace muster::worker
