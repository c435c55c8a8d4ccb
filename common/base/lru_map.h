// A map that keeps the most recently used entries, limited by their number and, where they differ in size, by their
// total weight. Above the limit it evicts the least recently used entries, one at a time; the most recently used one
// stays, whatever it weighs. Caches in this code base use it, so that none has to be cleared as a whole when it is
// full. No lock.
#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>
#include <list>
#include <map>
#include <utility>

namespace muster::common {

template <typename Key, typename Value>
class LruMap {
 public:
  static constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

  explicit LruMap(size_t entries_max, size_t weight_max = kNoLimit)
      : entries_max_(entries_max), weight_max_(weight_max) {}
  // Entries point into it.
  LruMap(const LruMap&) = delete;
  LruMap& operator=(const LruMap&) = delete;

  // Null if there is no such entry. Find counts as a use, Peek does not.
  template <typename Like>
  Value* Find(const Like& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    uses_.splice(uses_.begin(), uses_, found->second.use);
    return &found->second.value;
  }
  template <typename Like>
  const Value* Peek(const Like& key) const {
    const auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : &found->second.value;
  }

  // Replaces the key's earlier value. Counts as a use.
  Value& Put(const Key& key, Value value, size_t weight = 1) {
    auto [at, is_new] = entries_.try_emplace(key);
    if (is_new) {
      uses_.push_front(at);
      at->second.use = uses_.begin();
    } else {
      uses_.splice(uses_.begin(), uses_, at->second.use);
    }
    at->second.value = std::move(value);
    Weigh(at, weight);
    return at->second.value;
  }
  // Call it when the value has grown or shrunk.
  void SetWeight(const Key& key, size_t weight) {
    if (const auto at = entries_.find(key); at != entries_.end()) Weigh(at, weight);
  }

  void Erase(const Key& key) { EraseRange(key, key); }
  // Both ends included.
  void EraseRange(const Key& first, const Key& last) {
    const auto end = entries_.upper_bound(last);
    for (auto at = entries_.lower_bound(first); at != end;) at = Drop(at);
  }

  size_t size() const { return entries_.size(); }
  size_t weight() const { return weight_; }
  // Calls use(key, value) for each entry, in order of keys.
  template <typename Use>
  void ForEach(const Use& use) {
    for (auto& [key, entry] : entries_) use(key, entry.value);
  }

 private:
  struct Entry;
  using Entries = std::map<Key, Entry, std::less<>>;
  using At = typename Entries::iterator;
  struct Entry {
    Value value{};
    size_t weight = 0;
    typename std::list<At>::iterator use;
  };

  void Weigh(At at, size_t weight) {
    weight_ = weight_ - at->second.weight + weight;
    at->second.weight = weight;
    while (entries_.size() > 1 && (entries_.size() > entries_max_ || weight_ > weight_max_))
      Drop(uses_.back());
  }
  At Drop(At at) {
    weight_ -= at->second.weight;
    uses_.erase(at->second.use);
    return entries_.erase(at);
  }

  const size_t entries_max_;
  const size_t weight_max_;
  Entries entries_;
  std::list<At> uses_;  // most recently used first
  size_t weight_ = 0;
};

}  // namespace muster::common
