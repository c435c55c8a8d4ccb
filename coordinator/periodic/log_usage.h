// How much of the disk the output of each owner's jobs takes, including finished jobs, as of the last look,
// and whether an owner may have more jobs. It looks every minute, a few jobs at a time; the size of a
// finished job is remembered.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/core/state/input.h"
#include "coordinator/stores/log_store.h"

namespace muster::coordinator {

struct JobStores;
struct Jobs;
struct Process;

class LogUsage {
 public:
  // `quota_bytes`: for one owner; 0: no limit.
  explicit LogUsage(uint64_t quota_bytes = 0) : quota_bytes_(quota_bytes) {}

  uint64_t quota_bytes() const { return quota_bytes_; }
  // By OwnerKey. Any thread.
  std::map<std::string, uint64_t> ByOwner() const;
  // RESOURCE_EXHAUSTED (JC1628): the output of the caller's jobs takes more than the quota. Any
  // thread.
  absl::Status CheckRoom(const Caller& caller) const;

  struct Job {
    uint64_t id = 0;
    std::string owner_key;
    bool is_over = false;
  };
  // All recorded jobs. One look at a time: Measure a few at a time, then Publish.
  struct Look {
    std::vector<Job> jobs;
    size_t next = 0;
    std::map<uint64_t, uint64_t> of_finished;
    std::map<std::string, uint64_t> by_owner;
  };
  // False: all of them are measured.
  bool Measure(const LogStore& logs, Look& look) const;
  void Publish(Look look);

 private:
  const uint64_t quota_bytes_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<uint64_t, uint64_t> of_finished_;
  std::map<std::string, uint64_t> by_owner_;
};

// Looks now and every minute, until the pool stops.
void KeepLogUsage(Jobs& jobs, JobStores& stores, Process& process);

}  // namespace muster::coordinator
