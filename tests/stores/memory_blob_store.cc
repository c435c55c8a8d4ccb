#include "tests/stores/memory_blob_store.h"

#include <unistd.h>

#include "common/base/status.h"
#include "common/files/files.h"

namespace muster::coordinator {

absl::Status MemoryBlobStore::Put(const std::string& path, const std::string& sha256) {
  ASSIGN_OR_RETURN(std::string bytes, common::ReadFile(path, kBlobBytesMax));
  unlink(path.c_str());
  std::lock_guard lock(blobs_->mutex);
  blobs_->blobs[sha256] = std::move(bytes);
  return absl::OkStatus();
}

absl::StatusOr<std::string> MemoryBlobStore::Read(const std::string& sha256, uint64_t offset,
                                                  size_t max) const {
  ASSIGN_OR_RETURN(const uint64_t size, Size(sha256));
  std::lock_guard lock(blobs_->mutex);
  return offset >= size ? std::string() : blobs_->blobs[sha256].substr(offset, max);
}

absl::StatusOr<uint64_t> MemoryBlobStore::Size(const std::string& sha256) const {
  RETURN_IF_ERROR(CheckBlobName(sha256));
  std::lock_guard lock(blobs_->mutex);
  const auto blob = blobs_->blobs.find(sha256);
  if (blob == blobs_->blobs.end()) return absl::NotFoundError("the blob is missing");
  return blob->second.size();
}

bool MemoryBlobStore::Delete(const std::string& sha256) {
  std::lock_guard lock(blobs_->mutex);
  return blobs_->blobs.erase(sha256) > 0;
}

}  // namespace muster::coordinator
