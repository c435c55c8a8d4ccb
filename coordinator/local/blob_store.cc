#include "coordinator/local/blob_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"
#include "coordinator/store_parts/blob_files.h"

namespace muster::coordinator {

using common::StrCat;

std::shared_ptr<BlobStore> LocalBlobStore::At(const Paths& paths) {
  return std::shared_ptr<BlobStore>(new LocalBlobStore(paths));
}

absl::Status LocalBlobStore::Put(const std::string& path, const std::string& sha256) {
  RETURN_IF_ERROR(common::MakeDirectories(paths_.BlobDirectory(sha256)));
  if (rename(path.c_str(), paths_.BlobFile(sha256).c_str()) != 0) {
    return common::ErrnoStatus(StrCat("cannot put ", sha256, " into place"));
  }
  RETURN_IF_ERROR(common::SyncDirectory(paths_.BlobDirectory(sha256)));
  return common::SyncDirectory(paths_.BlobRoot());
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
  struct stat info {};
  if (stat(paths_.BlobFile(sha256).c_str(), &info) == 0) return static_cast<uint64_t>(info.st_size);
  return absl::NotFoundError(StrCat("blob ", sha256, " is missing"));
}

absl::StatusOr<std::vector<std::string>> LocalBlobStore::List(std::chrono::hours age) const {
  ASSIGN_OR_RETURN(std::vector<std::string> blobs, ListBlobFiles(paths_));
  std::erase_if(blobs, [&](const std::string& blob) {
    return !age_.IsOlderThan(paths_.BlobFile(blob), age);
  });
  return blobs;
}

bool LocalBlobStore::Delete(const std::string& sha256) {
  return unlink(paths_.BlobFile(sha256).c_str()) == 0;
}

}  // namespace muster::coordinator
