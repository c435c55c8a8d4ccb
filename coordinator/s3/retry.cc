#include "coordinator/s3/retry.h"

#include <algorithm>
#include <thread>

#include "common/base/random.h"

namespace muster::coordinator::s3 {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

Retry::Retry(const RetryPolicy& policy, const std::atomic<bool>* stop)
    : policy_(policy), stop_(stop), random_(static_cast<uint32_t>(common::Random64())) {}

bool Retry::Again() {
  constexpr int kDoublingsMax = 10;
  constexpr milliseconds kSlice{50};
  const milliseconds most =
      std::min(policy_.most, policy_.first * (1 << std::min(tries_, kDoublingsMax)));
  if (tries_++ == 0) refused_ = steady_clock::now();
  const milliseconds wait{std::uniform_int_distribution<int64_t>(0, most.count())(random_)};
  const auto until = steady_clock::now() + wait;
  if (until > refused_ + policy_.within) return false;
  for (;;) {
    if (stop_ != nullptr && stop_->load()) return false;
    const auto left = until - steady_clock::now();
    if (left <= steady_clock::duration::zero()) return true;
    std::this_thread::sleep_for(std::min<steady_clock::duration>(left, kSlice));
  }
}

}  // namespace muster::coordinator::s3
