// For a page that shows one job: the events that all pages get, and a notice whenever something new of
// this job was stored. The page then reads it; notices come at most a few times a second.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "coordinator/base/watch_hub.h"
#include "coordinator/http/server/message.h"

namespace muster::coordinator {
struct Daemon;
}

namespace muster::coordinator::http {

class JobUpdates final : public TextSource, public std::enable_shared_from_this<JobUpdates> {
 public:
  // `events` comes first in what Take returns. `news`: there is more to take; must only enqueue.
  static std::shared_ptr<JobUpdates> Open(Daemon& daemon, uint64_t job,
                                          std::shared_ptr<TextSource> events,
                                          std::function<void()> news);

  std::string Take() override;

 private:
  JobUpdates(Daemon& daemon, uint64_t job, std::shared_ptr<TextSource> events,
             std::function<void()> news);
  void Watch();
  // Any thread.
  void Hear(std::atomic<bool>& what);

  Daemon& daemon_;
  const uint64_t job_;
  const std::shared_ptr<TextSource> events_;
  const std::function<void()> news_;
  std::atomic<bool> metrics_ = false;  // there are new metrics
  std::atomic<bool> logs_ = false;
  std::atomic<bool> waits_ = false;  // until it may send the next notice
  std::atomic<bool> is_due_ = false;
  WatchToken metric_token_;
  WatchToken log_token_;
};

}  // namespace muster::coordinator::http
