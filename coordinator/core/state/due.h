// By key, when it has to be looked at next: the earliest of thousands is known without passing over all. What is set may
// be too early, never too late: a look finds nothing then, and sets it again.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace muster::coordinator {

template <typename Key>
class Due {
 public:
  // nullopt: never.
  void Set(const Key& key, std::optional<int64_t> at_mono_ms) {
    const auto known = at_.find(key);
    if (known != at_.end()) {
      if (at_mono_ms == known->second) return;
      order_.erase({known->second, key});
    }
    if (!at_mono_ms.has_value()) {
      if (known != at_.end()) at_.erase(known);
      return;
    }
    order_.emplace(*at_mono_ms, key);
    at_.insert_or_assign(key, *at_mono_ms);
  }
  std::optional<int64_t> At(const Key& key) const {
    const auto known = at_.find(key);
    return known == at_.end() ? std::nullopt : std::optional(known->second);
  }
  std::optional<int64_t> Earliest() const {
    return order_.empty() ? std::nullopt : std::optional(order_.begin()->first);
  }
  // Those that are due, the earliest first.
  std::vector<Key> Until(int64_t now_mono_ms) const {
    std::vector<Key> due;
    for (const auto& [at_mono_ms, key] : order_) {
      if (at_mono_ms > now_mono_ms) break;
      due.push_back(key);
    }
    return due;
  }
  size_t size() const { return at_.size(); }

 private:
  std::set<std::pair<int64_t, Key>> order_;
  std::unordered_map<Key, int64_t> at_;
};

}  // namespace muster::coordinator
