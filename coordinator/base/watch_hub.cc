#include "coordinator/base/watch_hub.h"

#include <utility>

namespace muster::coordinator {

WatchToken WatchHub::WatchJob(uint64_t job, JobWatcher watcher) {
  auto token = std::make_shared<JobWatcher>(std::move(watcher));
  jobs_[job].push_back(token);
  return token;
}

WatchToken WatchHub::WatchEvents(EventWatcher watcher) {
  auto token = std::make_shared<EventWatcher>(std::move(watcher));
  std::erase_if(events_, [](const auto& known) { return known.expired(); });
  events_.push_back(token);
  return token;
}

WatchHub::JobWatchers WatchHub::WatchersOf(uint64_t job) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return {};
  std::erase_if(found->second, [](const auto& known) { return known.expired(); });
  if (!found->second.empty()) return found->second;
  jobs_.erase(found);
  return {};
}

WatchHub::EventWatchers WatchHub::WatchersOfEvents() {
  std::erase_if(events_, [](const auto& known) { return known.expired(); });
  return events_;
}

}  // namespace muster::coordinator
