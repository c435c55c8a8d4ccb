// How long this coordinator may act as the leader among several, by its own clock. Any thread.
//
// Another one may lead once the lease in etcd is over. So this one acts only during the first two thirds of the
// lease, counted from when it sent the last renewal that was answered: the rest is for clocks that run at different
// speeds, and for what was already on its way.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "common/base/clock.h"

namespace muster::coordinator {

class Term {
 public:
  static constexpr int64_t SureFor(int64_t lease_ms) { return lease_ms * 2 / 3; }

  // A renewal that was sent at `sent_ms` (common::MonotonicMs) was answered: the lease has `lease_ms` from then on.
  void Renewed(int64_t sent_ms, int64_t lease_ms) {
    sure_until_ms_ = std::max(sure_until_ms_.load(), sent_ms + SureFor(lease_ms));
  }
  // It ends at once, for good.
  void End() { is_over_ = true; }

  int64_t SureUntilMs() const { return is_over_ ? 0 : sure_until_ms_.load(); }
  bool IsSure() const { return common::MonotonicMs() < SureUntilMs(); }

 private:
  std::atomic<int64_t> sure_until_ms_ = 0;
  std::atomic<bool> is_over_ = false;
};

}  // namespace muster::coordinator
