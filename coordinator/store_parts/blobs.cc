#include "coordinator/store_parts/blobs.h"

#include <utility>

#include "common/base/status.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"
#include "coordinator/store_parts/put_bytes.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr size_t kVerifiedAtOnce = 1 << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<Blobs>> Blobs::Open(std::shared_ptr<BlobStore> store,
                                                   const Paths& paths, const DiskGate* gate) {
  std::unique_ptr<Blobs> blobs(new Blobs(std::move(store), paths, gate));
  RETURN_IF_ERROR(blobs->uploads_.Prepare());
  return blobs;
}

Blobs::Blobs(std::shared_ptr<BlobStore> store, const Paths& paths, const DiskGate* gate)
    : paths_(paths),
      store_(std::move(store)),
      uploads_(paths, gate,
               [this](const std::string& path, const std::string& sha256) {
                 // From now on it is here; its uploader is about to refer to it.
                 promises_.Promise(sha256);
                 return store_->Put(path, sha256);
               }),
      proofs_(paths) {}

absl::StatusOr<bool> Blobs::Keep(const std::string& sha256, uint64_t size, uint64_t job) {
  RETURN_IF_ERROR(CheckBlob(sha256, size));
  promises_.Promise(sha256);
  const absl::StatusOr<uint64_t> have = store_->SizeFor(job, sha256);
  if (absl::IsNotFound(have.status())) return false;
  RETURN_IF_ERROR(have.status());
  return *have == size;
}

absl::StatusOr<std::string> Blobs::Add(std::string_view bytes) {
  promises_.Promise(common::Sha256Hex(bytes));
  return PutBytes(*store_, paths_, bytes);
}

absl::Status Blobs::Verify(const std::string& sha256, uint64_t job) const {
  ASSIGN_OR_RETURN(const uint64_t size, Size(sha256, job));
  common::Sha256 hash;
  for (uint64_t offset = 0; offset < size;) {
    ASSIGN_OR_RETURN(const std::string bytes, Read(sha256, offset, kVerifiedAtOnce, job));
    if (bytes.empty()) break;
    hash.Update(bytes);
    offset += bytes.size();
  }
  const std::string found = hash.FinishHex();
  if (found == sha256) return absl::OkStatus();
  return absl::DataLossError(StrCat("its ", size, " bytes have SHA-256 ", found));
}

bool Blobs::RemoveUnlessPromised(const std::string& sha256) {
  if (!common::IsSha256Hex(sha256)) return false;
  return promises_.Unless(sha256, [&] { return store_->Delete(sha256); });
}

std::vector<std::string> Blobs::OldBlobs() {
  uploads_.RemoveUnused(age_);
  proofs_.RemoveUnused(age_);
  return store_->List(kUnusedKept).value_or(std::vector<std::string>());
}

absl::StatusOr<bool> KeepProven(Blobs& blobs, const std::string& owner, uint64_t job,
                                const std::string& sha256, uint64_t size) {
  RETURN_IF_ERROR(CheckBlob(sha256, size));
  if (!owner.empty()) {
    ASSIGN_OR_RETURN(bool is_proven, blobs.HasProven(owner, sha256));
    if (!is_proven) {
      ASSIGN_OR_RETURN(is_proven, blobs.IsSentBy(job, sha256));
    }
    if (!is_proven) return false;
  }
  return blobs.Keep(sha256, size, job);
}

}  // namespace muster::coordinator
