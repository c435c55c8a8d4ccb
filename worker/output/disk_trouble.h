// A file of a rank's output or metrics that cannot be read. A disk may succeed a second later, and only the
// file has the bytes that the coordinator lacks, so reading is retried for a while. Wrong contents, or another
// kind of file in its place, do not improve and are not retried. One thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace muster::worker {

class DiskTrouble {
 public:
  static constexpr int64_t kRetryMs = 1'000;
  static constexpr int64_t kNoDescriptorMs = 50;  // others close theirs, sooner or later
  static constexpr int64_t kGivenUpMs = 600'000;

  // After a failure: whether to retry later.
  bool MayWait(const absl::Status& failure, int64_t now_ms) {
    if (absl::IsDataLoss(failure) || absl::IsInvalidArgument(failure)) return false;
    const bool is_disk = !absl::IsUnavailable(failure);
    retry_ms_ = now_ms + (is_disk ? kRetryMs : kNoDescriptorMs);
    if (!is_disk) return true;
    is_new_ = since_ms_ < 0;
    if (is_new_) since_ms_ = now_ms;
    return now_ms - since_ms_ < kGivenUpMs;
  }
  // True if the last failure was the first one of its disk, which is worth a line in the log.
  bool IsNew() const { return is_new_; }
  void Over() { *this = DiskTrouble(); }
  bool Waits(int64_t now_ms) const { return now_ms < retry_ms_; }
  int64_t retry_ms() const { return retry_ms_; }

 private:
  int64_t since_ms_ = -1;
  int64_t retry_ms_ = 0;
  bool is_new_ = false;
};

}  // namespace muster::worker
