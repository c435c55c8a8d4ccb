// Keeps the state small enough for the log that several coordinators share (stores/archive.h).
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/base/work_pool.h"
#include "coordinator/stores/archive.h"

namespace muster::coordinator {

// Moves as much as can leave until the state has at most `bytes`.
absl::Status MoveSurplus(Archive& archive, uint64_t bytes);

class ArchiveKeeper {
 public:
  // All outlive this, and it outlives what the pool still runs. `may_move`: nothing is moved while it is false.
  ArchiveKeeper(Archive& archive, uint64_t state_bytes, WorkPool& pool,
                std::function<bool()> may_move)
      : archive_(archive), state_bytes_(state_bytes), pool_(pool), may_move_(std::move(may_move)) {}
  // Looks now, and every few seconds.
  void Keep();

 private:
  // Moves some. False: nothing more is to do for now.
  absl::StatusOr<bool> KeepOnce();
  void Complain(uint64_t bytes);

  Archive& archive_;
  const uint64_t state_bytes_;  // what the state may have
  WorkPool& pool_;
  const std::function<bool()> may_move_;
  // Used by one task at a time.
  uint64_t moved_ = 0;
  uint64_t complained_at_ = 0;
  bool has_failed_ = false;
};

}  // namespace muster::coordinator
