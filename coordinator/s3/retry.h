// How often a request is tried, and how long to wait between: a random time of up to twice the one before (full
// jitter), so that many who were refused together do not return together. One thread.
#pragma once

#include <atomic>
#include <chrono>
#include <random>

namespace muster::coordinator::s3 {

struct RetryPolicy {
  std::chrono::milliseconds first{100};
  std::chrono::milliseconds most{5'000};
  // limit: object stores: from the first refusal until a request is tried no more; UNAVAILABLE
  std::chrono::milliseconds within{60'000};
};

class Retry {
 public:
  Retry(const RetryPolicy& policy, const std::atomic<bool>* stop);

  // Waits for the next try. False: the time is over, or `stop` was set.
  bool Again();
  // Something arrived: it counts as a first try again.
  void Progress() { tries_ = 0; }
  int tries() const { return tries_; }

 private:
  const RetryPolicy policy_;
  const std::atomic<bool>* const stop_;
  std::minstd_rand random_;
  int tries_ = 0;                                  // that were refused
  std::chrono::steady_clock::time_point refused_;  // the first time: a try may take long alone
};

}  // namespace muster::coordinator::s3
