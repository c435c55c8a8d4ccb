// Whether a shim is there: asked now and then, and at once when it has to stop its ranks. A shim
// that is stopped or hangs would keep them alive past every fence, so it is given up in time. Only
// time in which this worker itself ran is held against it. Control loop's thread; no clock, no I/O.
#pragma once

#include <cstdint>
#include <optional>

namespace muster::worker {

class ShimWatch {
 public:
  // Born waiting: a new connection is greeted with the shim's story.
  explicit ShimWatch(int64_t now_ms) : counted_ms_(now_ms) {}

  // Anything at all arrived.
  void Heard(int64_t now_ms);
  // A stop was asked for: everything must be over `grace_ms` later. True: ask it now.
  bool Stopping(int64_t now_ms, uint32_t grace_ms);
  // Time passed; `ran_ms` of it this worker could have heard an answer. True: ask it now.
  bool OnTime(int64_t now_ms, int64_t ran_ms);
  // The question was put (false: it is too old to answer, and is never given up).
  void Asked(bool answers, int64_t now_ms);

  // It has been silent for too long, and for how long.
  bool IsLost(int64_t now_ms) const;
  int64_t silent_ms() const { return silent_ms_; }
  // When OnTime has to be called again.
  int64_t NextMs(int64_t now_ms) const;

 private:
  int64_t counted_ms_;  // until when silent_ms_ was counted
  bool waiting_ = true;
  bool answers_ = true;
  int64_t silent_ms_ = 0;  // since the question, as far as this worker ran
  int64_t next_ask_ms_ = 0;
  std::optional<int64_t> over_by_ms_;  // a stop is under way
};

}  // namespace muster::worker
