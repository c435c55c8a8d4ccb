// Which streams have begun and not ended, and for which jobs readers no longer wait for the rest. Shared
// by the implementations of LogStore. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>

#include "common/base/lru_map.h"
#include "coordinator/stores/log_store.h"

namespace muster::coordinator {

class LogProgress {
 public:
  static constexpr size_t kGivenUpMax = 100'000;

  void Wrote(const LogKey& key, bool ended) {
    std::lock_guard lock(mutex_);
    given_up_.Erase(key.job);
    if (ended) {
      unended_.erase(key);
    } else {
      unended_.insert(key);
    }
  }

  // Later chunks of the job are refused.
  void Remove(uint64_t job) {
    std::lock_guard lock(mutex_);
    removed_.insert(job);
    std::erase_if(unended_, [&](const LogKey& key) { return key.job == job; });
    given_up_.Erase(job);
  }

  bool IsRemoved(uint64_t job) const {
    std::lock_guard lock(mutex_);
    return removed_.contains(job);
  }

  size_t Unended() const {
    std::lock_guard lock(mutex_);
    return unended_.size();
  }

  void GiveUpRest(uint64_t job) {
    std::lock_guard lock(mutex_);
    given_up_.Put(job, true);
  }

  bool IsRestGivenUp(uint64_t job) const {
    std::lock_guard lock(mutex_);
    return given_up_.Peek(job) != nullptr;
  }

 private:
  mutable std::mutex mutex_;  // guards what follows
  std::set<uint64_t> removed_;
  std::set<LogKey> unended_;
  common::LruMap<uint64_t, bool> given_up_{kGivenUpMax};
};

}  // namespace muster::coordinator
