#include "coordinator/local/blob_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "common/files.h"
#include "common/sha256.h"
#include "common/status.h"
#include "common/strings.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

// False: the file does not exist.
bool SizeOf(const std::string& path, uint64_t* size) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return false;
  *size = static_cast<uint64_t>(info.st_size);
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlobStore>> LocalBlobStore::Open(const Paths& paths,
                                                                const DiskGate* gate) {
  RETURN_IF_ERROR(common::MakeDirectories(paths.BlobRoot()));
  std::unique_ptr<LocalBlobStore> store(new LocalBlobStore(paths, gate));
  RETURN_IF_ERROR(store->uploads_.Prepare());
  return store;
}

LocalBlobStore::LocalBlobStore(const Paths& paths, const DiskGate* gate)
    : paths_(paths),
      uploads_(
          paths, gate,
          [this](const std::string& path, const std::string& sha256) { return Put(path, sha256); }),
      proofs_(paths) {}

absl::StatusOr<bool> LocalBlobStore::Keep(const std::string& sha256, uint64_t size) {
  RETURN_IF_ERROR(CheckBlob(sha256, size));
  promises_.Promise(sha256);
  uint64_t have = 0;
  return SizeOf(paths_.BlobFile(sha256), &have) && have == size;
}

absl::Status LocalBlobStore::Put(const std::string& path, const std::string& sha256) {
  // From now on it is here; whoever uploaded it is about to refer to it.
  promises_.Promise(sha256);
  RETURN_IF_ERROR(common::MakeDirectories(paths_.BlobDirectory(sha256)));
  if (rename(path.c_str(), paths_.BlobFile(sha256).c_str()) != 0) {
    return common::ErrnoStatus(StrCat("cannot put ", sha256, " into place"));
  }
  RETURN_IF_ERROR(common::SyncDirectory(paths_.BlobDirectory(sha256)));
  return common::SyncDirectory(paths_.BlobRoot());
}

absl::StatusOr<std::unique_ptr<BlobStore::Upload>> LocalBlobStore::OpenUpload(
    const OpenedUpload& upload) {
  return uploads_.Open(upload);
}

uint64_t LocalBlobStore::Arrived(const std::string& owner, const std::string& sha256) {
  return uploads_.Arrived(owner, sha256);
}

std::vector<BlobStore::Partial> LocalBlobStore::Partials(const std::string& owner) {
  return uploads_.Partials(owner);
}

void LocalBlobStore::RemovePartial(const std::string& owner, const std::string& sha256) {
  uploads_.Remove(owner, sha256);
}

absl::Status LocalBlobStore::Prove(const std::string& owner, const std::string& sha256) {
  return proofs_.Add(owner, sha256);
}

absl::StatusOr<bool> LocalBlobStore::HasProven(const std::string& owner,
                                               const std::string& sha256) {
  return proofs_.Has(owner, sha256);
}

absl::StatusOr<std::string> LocalBlobStore::Read(const std::string& sha256, uint64_t offset,
                                                 size_t max) const {
  RETURN_IF_ERROR(CheckBlobName(sha256));
  ASSIGN_OR_RETURN(const common::UniqueFd fd,
                   common::OpenRegular(paths_.BlobFile(sha256), O_RDONLY | O_NOFOLLOW));
  return common::ReadAt(fd.get(), offset, max, StrCat("blob ", sha256));
}

absl::StatusOr<uint64_t> LocalBlobStore::Size(const std::string& sha256) const {
  RETURN_IF_ERROR(CheckBlobName(sha256));
  uint64_t size = 0;
  if (!SizeOf(paths_.BlobFile(sha256), &size)) {
    return absl::NotFoundError(StrCat("blob ", sha256, " is missing"));
  }
  return size;
}

absl::Status LocalBlobStore::Verify(const std::string& sha256) const {
  ASSIGN_OR_RETURN(const uint64_t size, Size(sha256));
  ASSIGN_OR_RETURN(const std::string found, common::Sha256HexOfFile(paths_.BlobFile(sha256)));
  if (found == sha256) return absl::OkStatus();
  return absl::DataLossError(StrCat("its ", size, " bytes have SHA-256 ", found));
}

bool LocalBlobStore::RemoveUnlessPromised(const std::string& sha256) {
  if (!common::IsSha256Hex(sha256)) return false;
  return promises_.Unless(sha256, [&] { return unlink(paths_.BlobFile(sha256).c_str()) == 0; });
}

std::vector<std::string> LocalBlobStore::OldBlobs() {
  std::vector<std::string> old;
  uploads_.RemoveUnused(age_);
  proofs_.RemoveUnused(age_);
  const auto directories = common::ListDirectory(paths_.BlobRoot());
  if (!directories.ok()) return old;
  for (const std::string& directory : *directories) {
    const auto names = common::ListDirectory(StrCat(paths_.BlobRoot(), "/", directory));
    if (!names.ok()) continue;
    for (const std::string& name : *names) {
      if (common::IsSha256Hex(name) && age_.IsOlderThan(paths_.BlobFile(name), kUnusedKept)) {
        old.push_back(name);
      }
    }
  }
  return old;
}

}  // namespace muster::coordinator
