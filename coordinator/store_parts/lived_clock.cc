#include "coordinator/store_parts/lived_clock.h"

#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include "common/log.h"
#include "coordinator/base/number_file.h"

namespace muster::coordinator {
namespace {

// Not CLOCK_BOOTTIME: the time while a laptop was suspended does not count.
int64_t MonotonicMs() {
  timespec value{};
  clock_gettime(CLOCK_MONOTONIC, &value);
  return int64_t{value.tv_sec} * 1000 + value.tv_nsec / 1'000'000;
}

}  // namespace

LivedClock::LivedClock(NoteStore& notes) : notes_(notes), began_ms_(MonotonicMs()) {
  const std::vector<int64_t> kept = ParseNumbers(notes_.Read(Note::kLived).value_or(""), 1);
  if (!kept.empty()) before_ms_ = std::max<int64_t>(0, kept[0]);
}

common::Now LivedClock::Read() const {
  common::Now now = common::SystemClock().Read();
  now.lived_ms = before_ms_ + MonotonicMs() - began_ms_;
  return now;
}

void LivedClock::RaiseTo(int64_t lived_ms) { before_ms_ = std::max(before_ms_, lived_ms); }

void LivedClock::Keep() {
  const absl::Status kept = notes_.WriteSoon(Note::kLived, NumbersText({Read().lived_ms}));
  if (!kept.ok() && !failed_) common::LogWarning(std::string(kept.message()));
  failed_ = !kept.ok();
}

}  // namespace muster::coordinator
