// Blobs whose checkpoint may be about to be recorded: an upload of them began or ended recently, so
// none of them may be collected as garbage. Any thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <string>

namespace muster::coordinator {

class BlobPromises {
 public:
  // How long an upload protects its blob after its beginning and after its end.
  static constexpr std::chrono::minutes kKept{10};

  void Promise(const std::string& sha256) {
    std::lock_guard lock(mutex_);
    const Time now = std::chrono::steady_clock::now();
    promised_[sha256] = now;
    if (promised_.size() < prune_at_) return;
    std::erase_if(promised_, [&](const auto& entry) { return now - entry.second > kKept; });
    prune_at_ = std::max(prune_at_, 2 * promised_.size());
  }

  // Runs `remove` unless the blob is promised; it cannot be promised meanwhile. False: it was promised.
  template <typename Remove>
  bool Unless(const std::string& sha256, const Remove& remove) {
    std::lock_guard lock(mutex_);
    const auto promised = promised_.find(sha256);
    if (promised != promised_.end() &&
        std::chrono::steady_clock::now() - promised->second < kKept) {
      return false;
    }
    return remove();
  }

 private:
  using Time = std::chrono::steady_clock::time_point;

  std::mutex mutex_;  // guards what follows
  std::map<std::string, Time> promised_;
  size_t prune_at_ = 1'024;  // number of promises at which old ones are removed
};

}  // namespace muster::coordinator
