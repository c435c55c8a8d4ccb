// The coordinator's clock: the machine's clocks, plus its total uptime over all runs. Retention goes by
// the uptime: a wall clock that jumps, a long stop and a suspended machine make nothing older.
#pragma once

#include <cstdint>

#include "common/base/clock.h"
#include "coordinator/stores/note_store.h"

namespace muster::coordinator {

class LivedClock final : public common::Clock {
 public:
  // Continues from the note kLived; a missing or damaged one means 0, and RaiseTo corrects it.
  explicit LivedClock(NoteStore& notes);

  // Any thread.
  common::Now Read() const override;
  // Never behind a time that was already recorded. Call before any other thread reads the clock.
  void RaiseTo(int64_t lived_ms);
  // Writes the note. Uptime since the last write does not count if the coordinator is killed.
  void Keep();

 private:
  NoteStore& notes_;
  const int64_t began_ms_;  // CLOCK_MONOTONIC
  int64_t before_ms_ = 0;   // uptime of earlier runs
  bool failed_ = false;     // the note could not be written last time
};

}  // namespace muster::coordinator
