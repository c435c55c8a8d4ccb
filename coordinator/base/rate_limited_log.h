// Rate limit for warnings that a peer could trigger endlessly: one per second in the log, with the
// number suppressed.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "common/problem.h"

namespace muster::coordinator {

class RateLimitedLog {
 public:
  static constexpr std::chrono::seconds kEvery{1};

  // Any thread.
  void Warn(const std::string& text);
  void Warn(const common::Problem& problem) { Warn(common::Readable(problem)); }

 private:
  std::mutex mutex_;  // guards what follows
  std::chrono::steady_clock::time_point next_;
  uint64_t left_out_ = 0;
};

}  // namespace muster::coordinator
