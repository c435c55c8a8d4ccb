#include "coordinator/stores/blob_store.h"

#include "common/base/status.h"
#include "common/hash/sha256.h"
#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::coordinator {

using common::StrCat;

absl::Status CheckBlobName(const std::string& sha256) {
  if (common::IsSha256Hex(sha256)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      StrCat("\"", sha256, "\" is not a SHA-256 in 64 lower-case hex digits"));
}

absl::Status CheckBlob(const std::string& sha256, uint64_t size) {
  RETURN_IF_ERROR(CheckBlobName(sha256));
  if (size <= BlobStore::kBlobBytesMax) return absl::OkStatus();
  return common::MakeProblem(
      absl::StatusCode::kInvalidArgument,
      {.code = "JC1611",
       .what = StrCat("a checkpoint file of ", size, " bytes is refused: the limit is ",
                      BlobStore::kBlobBytesMax),
       .fix = "look for a program that is not Muster's"});
}

}  // namespace muster::coordinator
