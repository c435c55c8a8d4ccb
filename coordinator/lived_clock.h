// The coordinator's clock: the machine's clocks, and the time that it has been up in all its lives
// together. That one decides what is old (retention): a wall clock that jumps, a long stop and a
// machine that slept make nothing older.
#pragma once

#include <cstdint>
#include <string>

#include "common/clock.h"

namespace muster::coordinator {

class LivedClock final : public common::Clock {
 public:
  // Goes on from what `path` says; a missing or damaged file means 0, and RaiseTo mends it.
  explicit LivedClock(std::string path);

  // Any thread.
  common::Now Read() const override;
  // Never behind a time that was recorded already. Before any other thread reads the clock.
  void RaiseTo(int64_t lived_ms);
  // Writes the file. What a killed coordinator lived since the last time does not count.
  void Keep();

 private:
  const std::string path_;
  const int64_t began_ms_;  // CLOCK_MONOTONIC
  int64_t before_ms_ = 0;   // lived before this life
  bool failed_ = false;     // the file could not be written the last time
};

}  // namespace muster::coordinator
