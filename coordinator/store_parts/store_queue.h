// Shared by the stores' writer threads: a queue that any thread may add to, and retries while the
// machine is out of disk space, inodes or descriptors.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/store_parts/disk_gate.h"
#include "coordinator/stores/shortage.h"

namespace muster::coordinator {

inline int64_t SteadyMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The earlier of two times, where 0 means none.
inline int64_t EarlierDue(int64_t one_ms, int64_t other_ms) {
  return one_ms == 0 || other_ms == 0 ? std::max(one_ms, other_ms) : std::min(one_ms, other_ms);
}

template <typename Item>
class StoreQueue {
 public:
  static constexpr std::chrono::milliseconds kShortageRetry{500};

  // `what`: what is stored, for messages, such as "logs".
  // `gate`: may be null.
  explicit StoreQueue(std::string what, const DiskGate* gate = nullptr)
      : what_(std::move(what)), gate_(gate) {}

  // Any thread; never blocks.
  void Push(Item item) {
    {
      std::lock_guard lock(mutex_);
      queue_.push_back(std::move(item));
    }
    wake_.notify_all();
  }

  void Stop() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
  }

  // Waits for items, or until `due_ms` on the steady clock (0: forever). False: stopping, and the
  // queue is empty.
  bool Take(std::vector<Item>& batch, int64_t due_ms) {
    std::unique_lock lock(mutex_);
    const auto ready = [this] { return !queue_.empty() || stopping_; };
    if (due_ms != 0) {
      const int64_t wait_ms = std::max<int64_t>(0, due_ms - SteadyMs());
      wake_.wait_for(lock, std::chrono::milliseconds(wait_ms), ready);
    } else {
      wake_.wait(lock, ready);
    }
    if (queue_.empty() && stopping_) return false;
    batch.swap(queue_);
    return true;
  }

  // Retries for as long as a shortage lasts, and logs when it begins and ends. Returns a shortage
  // only if the daemon stops meanwhile.
  absl::Status Patiently(const std::function<absl::Status()>& at_last) {
    const auto attempt = [&]() -> absl::Status {
      const absl::Status may = gate_ == nullptr ? absl::OkStatus() : gate_->Check();
      return may.ok() ? at_last() : may;
    };
    absl::Status status = attempt();
    if (!IsShortage(status)) return status;
    common::Problem problem{
        .code = "JC1605",
        .what = common::StrCat(what_, " wait in the workers' spools until there is room"),
        .why = std::string(status.message()),
        .fix = "free some space or inodes"};
    if (absl::IsUnavailable(status)) {
      problem.code = "JC1612";
      problem.fix = "raise the limit of open files (LimitNOFILE)";
    }
    common::LogWarning(common::Readable(problem));
    const int64_t began_ms = SteadyMs();
    while (IsShortage(status)) {
      {
        std::unique_lock lock(mutex_);
        if (wake_.wait_for(lock, kShortageRetry, [this] { return stopping_; })) return status;
      }
      status = attempt();
    }
    common::LogInfo(common::StrCat(what_, " are stored again after_ms=", SteadyMs() - began_ms));
    return status;
  }

 private:
  const std::string what_;
  const DiskGate* const gate_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::vector<Item> queue_;
  bool stopping_ = false;
};

}  // namespace muster::coordinator
