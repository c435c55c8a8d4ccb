#include "tests/stores/memory_blob_store.h"

#include "common/sha256.h"
#include "common/status.h"

namespace muster::coordinator {

absl::StatusOr<BlobStore::Place> MemoryBlobStore::Begin(const std::string& sha256, uint64_t size) {
  RETURN_IF_ERROR(CheckBlob(sha256, size));
  promises_.Promise(sha256);
  std::lock_guard lock(blobs_->mutex);
  const auto blob = blobs_->blobs.find(sha256);
  if (blob != blobs_->blobs.end() && blob->second.size() == size) return Place{.have = true};
  std::string& upload = blobs_->uploads[sha256];
  if (upload.size() > size) upload.clear();
  return Place{.have = false, .offset = upload.size()};
}

absl::Status MemoryBlobStore::Write(const std::string& sha256, uint64_t size, uint64_t offset,
                                    std::string_view data) {
  RETURN_IF_ERROR(CheckBlob(sha256, size));
  std::lock_guard lock(blobs_->mutex);
  if (blobs_->blobs.contains(sha256)) return absl::OkStatus();
  std::string& upload = blobs_->uploads[sha256];
  if (offset > upload.size() || offset > size || data.size() > size - offset) {
    return absl::OutOfRangeError("does not follow; fix: restart the upload");
  }
  upload.replace(offset, data.size(), data);
  return absl::OkStatus();
}

absl::StatusOr<bool> MemoryBlobStore::Finish(const std::string& sha256, uint64_t size) {
  RETURN_IF_ERROR(CheckBlobName(sha256));
  promises_.Promise(sha256);
  std::lock_guard lock(blobs_->mutex);
  if (blobs_->blobs.contains(sha256)) return true;
  const auto upload = blobs_->uploads.find(sha256);
  if (upload == blobs_->uploads.end() || upload->second.size() != size) return false;
  const bool matches = common::Sha256Hex(upload->second) == sha256;
  if (matches) blobs_->blobs[sha256] = std::move(upload->second);
  blobs_->uploads.erase(upload);
  if (!matches) return absl::DataLossError("other bytes; fix: upload again from the start");
  return true;
}

uint64_t MemoryBlobStore::Received(const std::string& sha256) {
  std::lock_guard lock(blobs_->mutex);
  const auto blob = blobs_->blobs.find(sha256);
  return blob != blobs_->blobs.end() ? blob->second.size() : blobs_->uploads[sha256].size();
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

absl::Status MemoryBlobStore::Verify(const std::string& sha256) const {
  RETURN_IF_ERROR(Size(sha256).status());
  std::lock_guard lock(blobs_->mutex);
  if (common::Sha256Hex(blobs_->blobs[sha256]) == sha256) return absl::OkStatus();
  return absl::DataLossError("other bytes");
}

bool MemoryBlobStore::RemoveUnlessPromised(const std::string& sha256) {
  return promises_.Unless(sha256, [&] {
    std::lock_guard lock(blobs_->mutex);
    return blobs_->blobs.erase(sha256) > 0;
  });
}

}  // namespace muster::coordinator
