// Subscriptions to changes of one job, or of everything. Owned by the control loop's thread.
//
// A subscription lives as long as its token; callbacks run on the control loop's thread once the
// facts are durable, and must only enqueue.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "muster/v1/event.pb.h"
#include "muster/v1/job.pb.h"

namespace muster::coordinator {

struct JobChange {
  std::shared_ptr<const v1::JobRecord> record;  // null: the job was removed
  std::vector<v1::Event> events;                // this job's, of this turn
};
using JobWatcher = std::function<void(const JobChange&)>;
using EventWatcher = std::function<void(const std::shared_ptr<const std::vector<v1::Event>>&)>;
// Keep it to stay subscribed; may be dropped on any thread.
using WatchToken = std::shared_ptr<void>;

class WatchHub {
 public:
  WatchToken WatchJob(uint64_t job, JobWatcher watcher);
  WatchToken WatchEvents(EventWatcher watcher);

  // The watchers to notify of this turn's changes; later ones are not included.
  using JobWatchers = std::vector<std::weak_ptr<JobWatcher>>;
  using EventWatchers = std::vector<std::weak_ptr<EventWatcher>>;
  JobWatchers WatchersOf(uint64_t job);
  EventWatchers WatchersOfEvents();

 private:
  std::unordered_map<uint64_t, JobWatchers> jobs_;
  EventWatchers events_;
};

}  // namespace muster::coordinator
