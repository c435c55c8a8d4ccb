#include "coordinator/periodic/archive_keeper.h"

#include <chrono>
#include <utility>

#include "common/base/status.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr std::chrono::seconds kLooksEvery{5};

}  // namespace

absl::Status MoveSurplus(Archive& archive, uint64_t bytes) {
  while (true) {
    ASSIGN_OR_RETURN(const uint64_t left, archive.StateBytes());
    if (left <= bytes) return absl::OkStatus();
    ASSIGN_OR_RETURN(const uint64_t moved, archive.MoveOldest(left - bytes));
    if (moved == 0) return absl::OkStatus();
  }
}

void ArchiveKeeper::Keep() {
  // A task for each piece, so that a stop waits for one of them.
  pool_.Post([this] {
    const absl::StatusOr<bool> more = KeepOnce();
    if (!more.ok() && !has_failed_)
      common::LogWarning(StrCat("archive: nothing is moved: ", common::MessageOf(more.status())));
    has_failed_ = !more.ok();
    if (more.ok() && *more) return Keep();
    if (moved_ > 0)
      common::LogInfo(StrCat("archive: left the state bytes=", std::exchange(moved_, 0)));
    pool_.PostAfter(kLooksEvery, [this] { Keep(); });
  });
}

absl::StatusOr<bool> ArchiveKeeper::KeepOnce() {
  if (!may_move_()) return false;
  ASSIGN_OR_RETURN(const uint64_t bytes, archive_.StateBytes());
  if (bytes <= state_bytes_) return false;
  ASSIGN_OR_RETURN(const uint64_t moved, archive_.MoveOldest(bytes - state_bytes_));
  moved_ += moved;
  if (moved == 0) Complain(bytes);
  return moved > 0;
}

// Once, and again when it has doubled.
void ArchiveKeeper::Complain(uint64_t bytes) {
  if (bytes < 2 * complained_at_) return;
  complained_at_ = bytes;
  common::LogWarning(
      StrCat("archive: the state has bytes=", bytes, ", more than --archive-above=", state_bytes_,
             ", and nothing more can leave it for now: live jobs, the list of finished ones, and "
             "events since the last snapshot stay; etcd must have room for it twice"));
}

}  // namespace muster::coordinator
