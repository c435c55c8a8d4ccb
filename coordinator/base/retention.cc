#include "coordinator/base/retention.h"

#include <algorithm>

namespace muster::coordinator {

RetentionShare::RetentionShare(const std::vector<int64_t>& numbers) {
  if (numbers.size() != kCount) return;
  has_day_ = true;
  began_ms_ = numbers[0];
  share_ = numbers[1];
  removed_ = numbers[2];
  arrived_ = numbers[3];
  counted_until_ms_ = numbers[4];
}

std::vector<int64_t> RetentionShare::Numbers() const {
  return {began_ms_, share_, removed_, arrived_, counted_until_ms_};
}

void RetentionShare::BeginDay(int64_t finished, int64_t lived_ms) {
  has_day_ = true;
  began_ms_ = lived_ms;
  share_ = std::max(kShareMin, finished / kShareDivisor);
  removed_ = 0;
  arrived_ = 0;
}

RetentionShare::Removal RetentionShare::Take(const FinishedCounts& counts,
                                             const Retention& retention, int64_t lived_ms) {
  if (!has_day_ || lived_ms < began_ms_ || lived_ms - began_ms_ >= kDayMs) {
    BeginDay(counts.all, lived_ms);
  }
  arrived_ += counts.arrived;
  counted_until_ms_ = lived_ms;
  Removal removal{.aged = counts.aged, .share = share_};
  removal.surplus = std::max<int64_t>(
      0, counts.all - static_cast<int64_t>(std::min<uint64_t>(retention.jobs, INT64_MAX)));
  // A busy cluster finishes more than one day's share per day, but the number of jobs stays
  // bounded.
  const int64_t by_number =
      std::min(removal.surplus, std::max<int64_t>(0, share_ + arrived_ - removed_));
  const int64_t by_age = std::min(counts.aged, std::max<int64_t>(0, share_ - removed_));
  removal.count = std::min(std::max(by_number, by_age), kAtOnceMax);
  removed_ += removal.count;
  return removal;
}

}  // namespace muster::coordinator
