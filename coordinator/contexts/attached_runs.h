// Which attached jobs currently have a client's Run stream open. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

namespace muster::coordinator {

class AttachedRuns {
 public:
  void Came(uint64_t job) {
    std::lock_guard lock(mutex_);
    ++clients_[job];
  }
  // True if it was the job's last client.
  bool Left(uint64_t job) {
    std::lock_guard lock(mutex_);
    if (--clients_[job] > 0) return false;
    clients_.erase(job);
    return true;
  }
  bool Has(uint64_t job) {
    std::lock_guard lock(mutex_);
    return clients_.contains(job);
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, int> clients_;
};

}  // namespace muster::coordinator
