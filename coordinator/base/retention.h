// Limits how many finished jobs may be removed, so that no clock, flag or bug removes many at once:
// age is measured in coordinator uptime, and at most a share is removed automatically per day of
// uptime. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::coordinator {

struct Retention {
  uint64_t jobs = 10'000;  // finished jobs
  int64_t days = 30;
};

struct FinishedCounts {
  int64_t all = 0;
  int64_t aged = 0;     // older than Retention::days
  int64_t arrived = 0;  // since RetentionShare::CountedUntil
};

// Counts the jobs that were removed in the current day of uptime.
class RetentionShare {
 public:
  static constexpr int64_t kDayMs = 24 * 3'600'000;
  static constexpr int64_t kShareMin = 100;
  static constexpr int64_t kShareDivisor = 10;  // a tenth of the finished jobs
  static constexpr int64_t kAtOnceMax = 1'000;
  static constexpr size_t kCount = 5;  // of Numbers()

  // As returned by Numbers(); anything else starts a new day at the first Take.
  explicit RetentionShare(const std::vector<int64_t>& numbers);
  std::vector<int64_t> Numbers() const;

  struct Removal {
    int64_t count = 0;    // may be removed now; already counted as removed
    int64_t aged = 0;     // how many are too old
    int64_t surplus = 0;  // how many exceed Retention::jobs
    int64_t share = 0;    // for this day
  };
  Removal Take(const FinishedCounts& counts, const Retention& retention, int64_t lived_ms);
  int64_t CountedUntil() const { return counted_until_ms_; }
  int64_t Removed() const { return removed_; }

 private:
  void BeginDay(int64_t finished, int64_t lived_ms);

  bool has_day_ = false;
  int64_t began_ms_ = 0;
  int64_t share_ = 0;
  int64_t removed_ = 0;
  int64_t arrived_ = 0;
  int64_t counted_until_ms_ = INT64_MAX;
};

}  // namespace muster::coordinator
