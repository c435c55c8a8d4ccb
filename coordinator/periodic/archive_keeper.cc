#include "coordinator/periodic/archive_keeper.h"

#include <chrono>

#include "common/base/status.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr std::chrono::seconds kEvery{5};

}  // namespace

absl::StatusOr<uint64_t> MoveSurplus(Archive& archive, uint64_t bytes) {
  ASSIGN_OR_RETURN(uint64_t left, archive.StateBytes());
  const uint64_t before = left;
  while (left > bytes) {
    ASSIGN_OR_RETURN(const uint64_t moved, archive.MoveOldest(left - bytes));
    if (moved == 0) break;
    ASSIGN_OR_RETURN(left, archive.StateBytes());
  }
  if (left < before)
    common::LogInfo(StrCat("archive: the state had bytes=", before, ", now bytes=", left));
  return left;
}

void ArchiveKeeper::Keep() {
  pool_.Post([this] {
    const absl::Status moved = KeepOnce();
    if (!moved.ok() && !has_failed_)
      common::LogWarning(StrCat("archive: nothing is moved: ", common::MessageOf(moved)));
    has_failed_ = !moved.ok();
    pool_.PostAfter(kEvery, [this] { Keep(); });
  });
}

absl::Status ArchiveKeeper::KeepOnce() {
  ASSIGN_OR_RETURN(const uint64_t left, MoveSurplus(archive_, state_bytes_));
  if (left > state_bytes_) Complain(left);
  return absl::OkStatus();
}

// Once, and again when it has doubled.
void ArchiveKeeper::Complain(uint64_t bytes) {
  if (bytes < 2 * complained_at_) return;
  complained_at_ = bytes;
  common::LogWarning(StrCat(
      "the state has ", bytes, " bytes, more than --archive-above (", state_bytes_,
      "), and no finished job or part of the audit can leave it for now; etcd must have room "
      "for it twice"));
}

}  // namespace muster::coordinator
