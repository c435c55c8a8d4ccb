// Which (job, attempt) may send logs and metrics: jobs that exist, attempts that were started. A
// stale or unknown one is refused before it touches a file. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <unordered_map>

namespace muster::coordinator {

struct Daemon;

class JobGate {
 public:
  // Answers at once when it is known, else on another thread.
  void Check(Daemon& daemon, uint64_t job, uint32_t attempt, std::function<void(bool)> answer);
  void Forget(uint64_t job);

 private:
  static constexpr size_t kRememberedMax = 10'000;
  void Remember(uint64_t job, uint32_t attempts);

  std::mutex mutex_;                                 // guards what follows
  std::unordered_map<uint64_t, uint32_t> attempts_;  // job → attempts started so far
};

}  // namespace muster::coordinator
