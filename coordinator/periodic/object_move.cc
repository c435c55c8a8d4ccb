#include "coordinator/periodic/object_move.h"

#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/hash/sha256.h"
#include "common/log.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/store_parts/blob_files.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr std::chrono::minutes kAgainAfter{1};

}  // namespace

absl::StatusOr<bool> ObjectMove::Next() {
  if (!std::exchange(is_listed_, true)) {
    ASSIGN_OR_RETURN(const std::vector<std::string> blobs, ListBlobFiles(paths_));
    left_.assign(blobs.begin(), blobs.end());
    if (!left_.empty())
      common::LogInfo(StrCat("objects: moving the data directory's blobs count=", left_.size()));
  }
  if (left_.empty()) return false;
  const std::string next = left_.front();
  left_.pop_front();
  const absl::Status moved = Move(next);
  if (!moved.ok()) left_.push_back(next);  // the others do not wait for it
  RETURN_IF_ERROR(moved);
  return true;
}

absl::Status ObjectMove::Move(const std::string& sha256) {
  const std::string file = paths_.BlobFile(sha256);
  const absl::StatusOr<std::string> found = common::Sha256HexOfFile(file);
  if (absl::IsNotFound(found.status())) return absl::OkStatus();  // deleted meanwhile
  RETURN_IF_ERROR(found.status());
  if (*found != sha256) {
    common::LogWarning(StrCat("objects: a damaged blob is not moved file=", file));
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(into_->Put(file, sha256));
  ++moved_;
  return absl::OkStatus();
}

void MoveIntoObjects(ObjectMove& move, WorkPool& pool) {
  pool.Post([&move, &pool] {
    const absl::StatusOr<bool> more = move.Next();
    if (!more.ok()) {
      common::LogWarning(StrCat("objects: blobs stay in the data directory for now reason=\"",
                                common::MessageOf(more.status()), "\""));
      pool.PostAfter(kAgainAfter, [&move, &pool] { MoveIntoObjects(move, pool); });
    } else if (*more) {
      MoveIntoObjects(move, pool);
    } else if (move.moved() > 0) {
      common::LogInfo(StrCat("objects: moved all blobs count=", move.moved()));
    }
  });
}

}  // namespace muster::coordinator
