#include "worker/launch/shim_watch.h"

#include <algorithm>

namespace muster::worker {
namespace {

constexpr int64_t kLostStoppingMs = 10'000;
constexpr int64_t kLookMs = 500;  // the resolution at which silence is measured

}  // namespace

void ShimWatch::Heard(int64_t now_ms) {
  waiting_ = false;
  silent_ms_ = 0;
  // On a grid, so that many shims wake this worker together.
  next_ask_ms_ = over_by_ms_ ? now_ms + kAskStoppingMs : (now_ms / kAskEveryMs + 1) * kAskEveryMs;
}

bool ShimWatch::Stopping(int64_t now_ms, uint32_t grace_ms) {
  const int64_t over_by = now_ms + grace_ms;
  over_by_ms_ = over_by_ms_ ? std::min(*over_by_ms_, over_by) : over_by;
  return !waiting_;
}

bool ShimWatch::OnTime(int64_t now_ms, int64_t ran_ms) {
  if (!answers_) return false;
  if (waiting_) {
    silent_ms_ += std::min(ran_ms, now_ms - counted_ms_);
    counted_ms_ = now_ms;
    return false;
  }
  return now_ms >= next_ask_ms_;
}

void ShimWatch::Asked(bool answers, int64_t now_ms) {
  answers_ = answers;
  waiting_ = answers;
  counted_ms_ = now_ms;
  silent_ms_ = 0;
}

bool ShimWatch::IsLost(int64_t now_ms) const {
  if (!waiting_ || !answers_) return false;
  const int64_t timeout = !over_by_ms_             ? kLostMs
                          : now_ms >= *over_by_ms_ ? kLostOverdueMs
                                                   : kLostStoppingMs;
  return silent_ms_ >= timeout;
}

int64_t ShimWatch::NextMs(int64_t now_ms) const {
  if (!answers_) return now_ms + kAskEveryMs;
  return waiting_ ? now_ms + kLookMs : next_ask_ms_;
}

}  // namespace muster::worker
