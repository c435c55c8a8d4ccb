// Watches whether a shim is alive: checks now and then, and immediately when the shim has to stop
// its ranks. A stopped or hung shim would keep them alive past every fence, so it is killed in
// time. Only time during which this worker itself ran counts against it. Control loop's thread; no
// clock, no I/O.
#pragma once

#include <cstdint>
#include <optional>

namespace muster::worker {

class ShimWatch {
 public:
  static constexpr int64_t kAskEveryMs = 5'000;
  static constexpr int64_t kAskStoppingMs = 1'000;  // one with pending orders is checked more often
  static constexpr int64_t kLostMs = 20'000;        // a slow disk may delay a healthy one this long
  // For a shim whose ranks should be gone: together with kAskStoppingMs, less than the margin after
  // which the coordinator starts them elsewhere (Settings::fence_margin_ms).
  static constexpr int64_t kLostOverdueMs = 2'000;

  // Starts out waiting: a new connection begins with the shim's history.
  explicit ShimWatch(int64_t now_ms) : counted_ms_(now_ms) {}

  // Any packet arrived.
  void Heard(int64_t now_ms);
  // A stop was requested: everything must be over `grace_ms` later. True: ask it now.
  bool Stopping(int64_t now_ms, uint32_t grace_ms);
  // Time passed; during `ran_ms` of it this worker could have received an answer. True: ask it now.
  bool OnTime(int64_t now_ms, int64_t ran_ms);
  // The question was sent (false: it is too old to answer, and is never declared lost).
  void Asked(bool answers, int64_t now_ms);

  // True if the shim has been silent for too long.
  bool IsLost(int64_t now_ms) const;
  int64_t silent_ms() const { return silent_ms_; }
  // When to call OnTime again.
  int64_t NextMs(int64_t now_ms) const;

 private:
  int64_t counted_ms_;  // silent_ms_ is counted up to here
  bool waiting_ = true;
  bool answers_ = true;
  int64_t silent_ms_ = 0;  // since the question, while this worker ran
  int64_t next_ask_ms_ = 0;
  std::optional<int64_t> over_by_ms_;  // set during a stop
};

}  // namespace muster::worker
