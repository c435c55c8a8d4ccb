// A bounded cache. Of concurrent requests for one key, only the first looks it up; the others wait for its answer, without
// blocking a thread. When the cache is full, it evicts the least recently used entries (common/base/lru_map.h). All waiting
// requests get an error, which is never cached. Any thread; outlives the lookups.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/lru_map.h"

namespace muster::coordinator {

template <typename Key, typename Value>
class Cache {
 public:
  using Kept = std::shared_ptr<Value>;
  using Found = absl::StatusOr<Kept>;
  using Then = std::function<void(const Found&)>;
  // Calls its argument once, on any thread.
  using Lookup = std::function<void(std::function<void(Found)>)>;
  // Whether the result also answers a request that came after its lookup began. Not called for older errors, which are
  // not cached.
  using Enough = std::function<bool(const Found&)>;
  static constexpr size_t kNoLimit = common::LruMap<Key, Kept>::kNoLimit;

  struct Limits {
    size_t entries = kNoLimit;
    size_t weight = kNoLimit;
    std::function<size_t(const Value&)> weigh = nullptr;  // null: 1 each
    size_t lookups = kNoLimit;                            // under way
  };
  explicit Cache(Limits limits)
      : limits_(std::move(limits)), kept_(limits_.entries, limits_.weight) {}

  // Null if the key is not cached.
  Kept Find(const Key& key) {
    std::lock_guard lock(mutex_);
    const Kept* kept = kept_.Find(key);
    return kept == nullptr ? nullptr : *kept;
  }

  // Calls `then` immediately with what is cached if that is enough (null: it is); otherwise with the result of a lookup,
  // which may already be in progress. If that is not enough either, the key is looked up once more, for all such requests
  // together. False: too many lookups are in progress, and `then` is not called.
  bool Get(const Key& key, Lookup lookup, Then then, Enough enough = nullptr) {
    if (const Found known = Find(key); *known != nullptr && (enough == nullptr || enough(known))) {
      then(known);
      return true;
    }
    {
      std::lock_guard lock(mutex_);
      const auto under_way = waiting_.find(key);
      if (under_way != waiting_.end()) {
        under_way->second.askers.push_back({std::move(lookup), std::move(then), std::move(enough)});
        return true;
      }
      if (waiting_.size() >= limits_.lookups) return false;
      waiting_[key].askers.push_back({nullptr, std::move(then), nullptr});
    }
    Begin(key, lookup);
    return true;
  }

  // Both ends included. Results of lookups in progress are not cached, either.
  void Forget(const Key& first, const Key& last) {
    std::lock_guard lock(mutex_);
    kept_.EraseRange(first, last);
    const auto end = waiting_.upper_bound(last);
    for (auto at = waiting_.lower_bound(first); at != end; ++at) at->second.is_kept = false;
  }
  void Forget(const Key& key) { Forget(key, key); }

 private:
  struct Asker {
    Lookup lookup;
    Then then;
    Enough enough;
  };
  struct Waiting {
    std::vector<Asker> askers;
    bool is_kept = true;
  };

  void Begin(const Key& key, const Lookup& lookup) {
    lookup([this, key](Found found) { End(key, found); });
  }

  void End(const Key& key, const Found& found) {
    std::vector<Then> answered;
    Lookup again;
    {
      std::lock_guard lock(mutex_);
      const auto at = waiting_.find(key);
      Waiting& waiting = at->second;
      if (found.ok() && waiting.is_kept)
        kept_.Put(key, *found, limits_.weigh == nullptr ? 1 : limits_.weigh(**found));
      std::vector<Asker> later;
      for (Asker& asker : waiting.askers) {
        if (asker.enough == nullptr || asker.enough(found)) {
          answered.push_back(std::move(asker.then));
        } else {
          if (again == nullptr) again = std::move(asker.lookup);
          later.push_back({nullptr, std::move(asker.then), nullptr});
        }
      }
      if (again == nullptr) {
        waiting_.erase(at);
      } else {
        waiting = {.askers = std::move(later)};
      }
    }
    for (const Then& then : answered) then(found);
    if (again != nullptr) Begin(key, again);
  }

  const Limits limits_;
  std::mutex mutex_;  // guards what follows
  common::LruMap<Key, Kept> kept_;
  std::map<Key, Waiting> waiting_;
};

}  // namespace muster::coordinator
