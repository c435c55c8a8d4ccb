// Keeps the state small enough for the log that several coordinators share (stores/archive.h).
#pragma once

#include <cstdint>

#include "coordinator/base/work_pool.h"
#include "coordinator/stores/archive.h"

namespace muster::coordinator {

// Moves as much as can leave until the state has at most `bytes`. Returns what it has then.
absl::StatusOr<uint64_t> MoveSurplus(Archive& archive, uint64_t bytes);

class ArchiveKeeper {
 public:
  // All outlive this, and it outlives what the pool still runs.
  ArchiveKeeper(Archive& archive, uint64_t state_bytes, WorkPool& pool)
      : archive_(archive), state_bytes_(state_bytes), pool_(pool) {}
  // Looks now, and every few seconds.
  void Keep();

 private:
  absl::Status KeepOnce();
  void Complain(uint64_t bytes);

  Archive& archive_;
  const uint64_t state_bytes_;  // what the state may have
  WorkPool& pool_;
  // Used by one task at a time.
  uint64_t complained_at_ = 0;
  bool has_failed_ = false;
};

}  // namespace muster::coordinator
