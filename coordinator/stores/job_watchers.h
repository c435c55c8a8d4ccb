// Callbacks that are told when something of a job was stored. Any thread; called on the store's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/base/watch_hub.h"

namespace muster::coordinator {

template <typename What>
class JobWatchers {
 public:
  // Must only enqueue.
  using Watcher = std::function<void(What)>;

  WatchToken Watch(uint64_t job, Watcher watcher) {
    auto token = std::make_shared<Watcher>(std::move(watcher));
    std::lock_guard lock(mutex_);
    auto& watchers = of_job_[job];
    std::erase_if(watchers, [](const auto& known) { return known.expired(); });
    watchers.push_back(token);
    return token;
  }

  void Notify(uint64_t job, What what) {
    std::vector<std::weak_ptr<Watcher>> watchers;
    {
      std::lock_guard lock(mutex_);
      const auto found = of_job_.find(job);
      if (found == of_job_.end()) return;
      std::erase_if(found->second, [](const auto& known) { return known.expired(); });
      if (found->second.empty()) {
        of_job_.erase(found);
        return;
      }
      watchers = found->second;
    }
    for (const auto& watcher : watchers) {
      if (const auto alive = watcher.lock()) (*alive)(what);
    }
  }

  void Forget(uint64_t job) {
    std::lock_guard lock(mutex_);
    of_job_.erase(job);
  }

 private:
  std::mutex mutex_;  // guards what follows
  std::unordered_map<uint64_t, std::vector<std::weak_ptr<Watcher>>> of_job_;
};

}  // namespace muster::coordinator
