#include "coordinator/local/blob_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <memory>

#include "common/files.h"
#include "common/problem.h"
#include "common/sha256.h"
#include "common/status.h"
#include "common/strings.h"
#include "common/text.h"
#include "coordinator/local/blob_upload.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr std::string_view kPartSuffix = ".part";
constexpr size_t kSha256Digits = 64;
constexpr int64_t kNsPerSecond = 1'000'000'000;

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
  RETURN_IF_ERROR(common::MakeDirectories(paths.UploadRoot()));
  return std::unique_ptr<BlobStore>(new LocalBlobStore(paths, gate));
}

absl::StatusOr<BlobStore::Place> LocalBlobStore::Begin(const std::string& sha256, uint64_t size) {
  RETURN_IF_ERROR(CheckBlob(sha256, size));
  promises_.Promise(sha256);
  uint64_t have = 0;
  if (SizeOf(paths_.BlobFile(sha256), &have) && have == size) return Place{.have = true};
  uint64_t received = 0;
  if (!SizeOf(paths_.UploadFile(sha256), &received)) return Place{};
  if (received > size) {
    unlink(paths_.UploadFile(sha256).c_str());
    received = 0;
  }
  return Place{.have = false, .offset = received};
}

absl::Status LocalBlobStore::Write(const std::string& sha256, uint64_t size, uint64_t offset,
                                   std::string_view data) {
  RETURN_IF_ERROR(CheckBlob(sha256, size));
  const std::string path = paths_.UploadFile(sha256);
  uint64_t have = 0;
  if (SizeOf(paths_.BlobFile(sha256), &have)) return absl::OkStatus();
  if (gate_ != nullptr) RETURN_IF_ERROR(gate_->Check());
  common::UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return common::ErrnoStatus(StrCat("cannot open ", path));
  SizeOf(path, &have);
  // This order of the checks prevents an overflow: the first one bounds the offset.
  if (offset > have || offset > size || data.size() > size - offset) {
    return absl::OutOfRangeError(StrCat("a piece of ", sha256, " at ", offset, " of ", data.size(),
                                        " bytes does not follow the ", have, " of ", size,
                                        " bytes received so far; fix: restart the upload"));
  }
  while (!data.empty()) {
    const ssize_t count = pwrite(fd.get(), data.data(), data.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return common::ErrnoStatus(StrCat("cannot write ", path));
    data.remove_prefix(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> LocalBlobStore::Finish(const std::string& sha256, uint64_t size) {
  RETURN_IF_ERROR(CheckBlobName(sha256));
  promises_.Promise(sha256);
  const absl::StatusOr<bool> finished = PutIntoPlace(sha256, size);
  if (finished.ok() && *finished) return true;
  // Two jobs may upload equal files at once: then the other one has put it into place.
  uint64_t have = 0;
  if (!SizeOf(paths_.BlobFile(sha256), &have)) return finished;
  RETURN_IF_ERROR(SyncPlace(sha256));
  return true;
}

absl::StatusOr<bool> LocalBlobStore::PutIntoPlace(const std::string& sha256, uint64_t size) {
  const std::string path = paths_.UploadFile(sha256);
  uint64_t have = 0;
  if (SizeOf(paths_.BlobFile(sha256), &have)) return false;
  common::UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return common::ErrnoStatus(StrCat("cannot open ", path));
  if (fsync(fd.get()) != 0) return common::ErrnoStatus(StrCat("cannot sync ", path));
  if (!SizeOf(path, &have) || have != size) return false;
  ASSIGN_OR_RETURN(const std::string found, common::Sha256HexOfFile(path));
  if (found != sha256) {
    unlink(path.c_str());
    return absl::DataLossError(StrCat("the uploaded bytes have SHA-256 ", found, ", not ", sha256,
                                      "; fix: upload again from the start"));
  }
  RETURN_IF_ERROR(Put(path, sha256));
  return true;
}

absl::Status LocalBlobStore::Put(const std::string& path, const std::string& sha256) {
  RETURN_IF_ERROR(common::MakeDirectories(paths_.BlobDirectory(sha256)));
  if (rename(path.c_str(), paths_.BlobFile(sha256).c_str()) != 0) {
    return common::ErrnoStatus(StrCat("cannot put ", sha256, " into place"));
  }
  return SyncPlace(sha256);
}

absl::Status LocalBlobStore::SyncPlace(const std::string& sha256) {
  RETURN_IF_ERROR(common::SyncDirectory(paths_.BlobDirectory(sha256)));
  return common::SyncDirectory(paths_.BlobRoot());
}

uint64_t LocalBlobStore::Received(const std::string& sha256) {
  uint64_t size = 0;
  if (!SizeOf(paths_.BlobFile(sha256), &size)) SizeOf(paths_.UploadFile(sha256), &size);
  return size;
}

absl::StatusOr<std::unique_ptr<BlobStore::Upload>> LocalBlobStore::OpenUpload(
    const OpenedUpload& upload) {
  RETURN_IF_ERROR(CheckBlob(upload.sha256, upload.size));
  if (!common::IsPathName(upload.owner)) {
    return absl::InvalidArgumentError(
        StrCat("\"", common::Printable(upload.owner), "\" cannot own an upload"));
  }
  const std::string path = paths_.UploadFile(upload.sha256, upload.owner);
  uint64_t have = 0;
  SizeOf(path, &have);
  if (upload.offset > have || upload.offset > upload.size) {
    return absl::OutOfRangeError(StrCat("offset ", upload.offset, " of ", upload.sha256,
                                        " does not follow the ", have, " of ", upload.size,
                                        " bytes received so far; fix: restart the upload"));
  }
  common::UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return common::ErrnoStatus(StrCat("cannot open ", path));
  if (ftruncate(fd.get(), static_cast<off_t>(upload.offset)) != 0)
    return common::ErrnoStatus(StrCat("cannot write ", path));
  const auto put = [this, path, sha256 = upload.sha256] {
    // From now on it is here; whoever uploaded it is about to refer to it.
    promises_.Promise(sha256);
    return Put(path, sha256);
  };
  return std::unique_ptr<Upload>(new LocalUpload(upload, path, std::move(fd), gate_, put));
}

std::vector<BlobStore::Partial> LocalBlobStore::Partials(const std::string& owner) {
  struct Found {
    int64_t written_ns;
    Partial partial;
  };
  std::vector<Found> found;
  const std::string end = StrCat("@", owner, kPartSuffix);
  const auto names = common::ListDirectory(paths_.UploadRoot());
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    const std::string sha256 = name.substr(0, kSha256Digits);
    struct stat info {};
    if (name != sha256 + end || !common::IsSha256Hex(sha256) ||
        stat(paths_.UploadFile(sha256, owner).c_str(), &info) != 0) {
      continue;
    }
    found.push_back({info.st_mtim.tv_sec * kNsPerSecond + info.st_mtim.tv_nsec,
                     {sha256, static_cast<uint64_t>(info.st_size)}});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.written_ns < b.written_ns; });
  std::vector<Partial> partials;
  for (Found& each : found) partials.push_back(std::move(each.partial));
  return partials;
}

void LocalBlobStore::RemovePartial(const std::string& owner, const std::string& sha256) {
  if (!common::IsSha256Hex(sha256) || !common::IsPathName(owner)) return;
  unlink(paths_.UploadFile(sha256, owner).c_str());
}

absl::StatusOr<std::string> LocalBlobStore::Read(const std::string& sha256, uint64_t offset,
                                                 size_t max) const {
  RETURN_IF_ERROR(CheckBlobName(sha256));
  common::UniqueFd fd(open(paths_.BlobFile(sha256).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return common::ErrnoStatus(StrCat("blob ", sha256));
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
  const auto parts = common::ListDirectory(paths_.UploadRoot());
  if (parts.ok()) {
    for (const std::string& name : *parts) {
      const std::string path = StrCat(paths_.UploadRoot(), "/", name);
      if (age_.IsOlderThan(path, kUnusedKept)) unlink(path.c_str());
    }
  }
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
