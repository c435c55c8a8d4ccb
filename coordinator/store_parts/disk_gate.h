// Closed while the disk is full: bulk data (output, metrics, checkpoints) waits as if the disk had no
// room at all, so that the journal's reserve is left to the journal.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace muster::coordinator {

class StreamFailures;

class DiskGate {
 public:
  // Any thread.
  void SetFull(bool full) { is_full_ = full; }
  bool IsClosed() const { return is_full_; }
  // RESOURCE_EXHAUSTED, an error that stores wait out (shortage.h).
  absl::Status Check() const {
    if (!is_full_) return absl::OkStatus();
    return absl::ResourceExhaustedError("the disk is full; what is left of it is for the journal");
  }

 private:
  std::atomic<bool> is_full_ = false;
};

// How a store uses the disk that it shares with others.
struct DiskUse {
  size_t open_max = 256;     // streams with open files
  uint64_t quota_bytes = 0;  // of one job; 0: no limit
  const DiskGate* gate = nullptr;
  StreamFailures* failures = nullptr;  // told of files that fail; null: none
};

}  // namespace muster::coordinator
