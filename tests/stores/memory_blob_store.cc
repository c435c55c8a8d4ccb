#include "tests/stores/memory_blob_store.h"

#include "common/sha256.h"
#include "common/status.h"
#include "common/text.h"

namespace muster::coordinator {

absl::StatusOr<bool> MemoryBlobStore::Keep(const std::string& sha256, uint64_t size) {
  RETURN_IF_ERROR(CheckBlob(sha256, size));
  promises_.Promise(sha256);
  std::lock_guard lock(blobs_->mutex);
  const auto blob = blobs_->blobs.find(sha256);
  return blob != blobs_->blobs.end() && blob->second.size() == size;
}

namespace {

class MemoryUpload final : public BlobStore::Upload {
 public:
  MemoryUpload(BlobStore::OpenedUpload upload, std::shared_ptr<MemoryBlobs> blobs,
               BlobPromises& promises)
      : upload_(std::move(upload)), blobs_(std::move(blobs)), promises_(promises) {}
  ~MemoryUpload() override {
    std::lock_guard lock(blobs_->mutex);
    blobs_->written.erase({upload_.owner, upload_.sha256});
  }
  absl::StatusOr<bool> CatchUp() override { return true; }
  absl::Status Append(std::string_view data) override {
    std::lock_guard lock(blobs_->mutex);
    std::string& bytes = blobs_->owned[{upload_.owner, upload_.sha256}];
    if (data.size() > upload_.size - bytes.size()) return absl::OutOfRangeError("too many bytes");
    bytes += data;
    return absl::OkStatus();
  }
  absl::Status Sync() override { return absl::OkStatus(); }
  absl::Status Commit() override {
    promises_.Promise(upload_.sha256);
    std::lock_guard lock(blobs_->mutex);
    const auto found = blobs_->owned.find({upload_.owner, upload_.sha256});
    if (found == blobs_->owned.end() || found->second.size() != upload_.size)
      return absl::FailedPreconditionError("not all bytes arrived");
    const std::string bytes = std::move(found->second);
    blobs_->owned.erase(found);
    if (common::Sha256Hex(bytes) != upload_.sha256) return absl::DataLossError("other bytes");
    blobs_->blobs[upload_.sha256] = bytes;
    return absl::OkStatus();
  }

 private:
  const BlobStore::OpenedUpload upload_;
  const std::shared_ptr<MemoryBlobs> blobs_;
  BlobPromises& promises_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BlobStore::Upload>> MemoryBlobStore::OpenUpload(
    const OpenedUpload& upload) {
  RETURN_IF_ERROR(CheckBlob(upload.sha256, upload.size));
  if (!common::IsPathName(upload.owner)) return absl::InvalidArgumentError("no owner");
  std::lock_guard lock(blobs_->mutex);
  const std::pair name(upload.owner, upload.sha256);
  if (blobs_->written.contains(name)) return absl::AbortedError("being uploaded");
  std::string& bytes = blobs_->owned[name];
  if (upload.offset > bytes.size() || upload.offset > upload.size)
    return absl::OutOfRangeError("does not follow");
  bytes.resize(upload.offset);
  blobs_->written.insert(name);
  std::erase(blobs_->opened, name);
  blobs_->opened.push_back(name);
  RemoveSurplus(upload.owner);
  return std::make_unique<MemoryUpload>(upload, blobs_, promises_);
}

// With the lock held.
void MemoryBlobStore::RemoveSurplus(const std::string& owner) {
  size_t count = 0;
  for (auto each = blobs_->opened.rbegin(); each != blobs_->opened.rend(); ++each) {
    if (each->first != owner || !blobs_->owned.contains(*each)) continue;
    if (++count > kPartialsMax && !blobs_->written.contains(*each)) blobs_->owned.erase(*each);
  }
}

uint64_t MemoryBlobStore::Arrived(const std::string& owner, const std::string& sha256) {
  std::lock_guard lock(blobs_->mutex);
  const auto found = blobs_->owned.find({owner, sha256});
  return found == blobs_->owned.end() ? 0 : found->second.size();
}

std::vector<BlobStore::Partial> MemoryBlobStore::Partials(const std::string& owner) {
  std::lock_guard lock(blobs_->mutex);
  std::vector<Partial> partials;
  for (const auto& [key, bytes] : blobs_->owned) {
    if (key.first == owner) partials.push_back({key.second, bytes.size()});
  }
  return partials;
}

void MemoryBlobStore::RemovePartial(const std::string& owner, const std::string& sha256) {
  std::lock_guard lock(blobs_->mutex);
  if (!blobs_->written.contains({owner, sha256})) blobs_->owned.erase({owner, sha256});
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

absl::Status MemoryBlobStore::Prove(const std::string& owner, const std::string& sha256) {
  std::lock_guard lock(blobs_->mutex);
  blobs_->proven.emplace(owner, sha256);
  return absl::OkStatus();
}

absl::StatusOr<bool> MemoryBlobStore::HasProven(const std::string& owner,
                                                const std::string& sha256) {
  if (!common::IsPathName(owner)) return absl::InvalidArgumentError("not a name for an owner");
  std::lock_guard lock(blobs_->mutex);
  return blobs_->proven.contains({owner, sha256});
}

}  // namespace muster::coordinator
