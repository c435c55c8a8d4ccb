// Which (job, attempt, rank) may send logs and metrics: jobs that exist, attempts that were
// started, ranks below the attempt's world size. Anything else is rejected before it touches a
// file. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <unordered_map>

#include "muster/v1/job.pb.h"

namespace muster::coordinator {

struct Daemon;

class JobGate {
 public:
  // Answers immediately if known, otherwise on another thread.
  void Check(Daemon& daemon, uint64_t job, uint32_t attempt, uint32_t rank,
             std::function<void(bool)> answer);
  void Forget(uint64_t job);

 private:
  static constexpr size_t kRememberedMax = 10'000;
  struct Known {
    uint32_t attempts = 0;                     // started so far
    std::map<uint32_t, uint32_t> world_sizes;  // of the attempts in the record
    uint32_t ranks_max = 0;                    // for any other attempt, from the job's shape
    bool Has(uint32_t attempt, uint32_t rank) const;
  };
  static Known Learn(const v1::JobRecord& record);

  std::mutex mutex_;  // guards what follows
  std::unordered_map<uint64_t, Known> jobs_;
};

}  // namespace muster::coordinator
