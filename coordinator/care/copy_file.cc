#include "coordinator/care/copy_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"
#include "coordinator/base/file_tree.h"

namespace muster::coordinator {
namespace {

using common::StrCat;
using common::UniqueFd;

constexpr size_t kPieceBytes = 1 << 20;
constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr char kDraft[] = ".part";

std::string FullPath(const Place& place) { return StrCat(place.root, "/", place.path); }

// Hashes `size` bytes and, if `to` is valid, writes them to it.
absl::StatusOr<CopiedFile> ReadThrough(const UniqueFd& from, const std::string& name,
                                       const UniqueFd& to, uint64_t size,
                                       const CopyProgress& progress) {
  struct stat info {};
  if (fstat(from.get(), &info) != 0) return common::ErrnoStatus(StrCat("cannot read ", name));
  CopiedFile copied;
  copied.modified_ns = info.st_mtim.tv_sec * kNsPerSecond + info.st_mtim.tv_nsec;
  common::Sha256 hash;
  std::vector<char> piece(kPieceBytes);
  while (copied.size < size) {
    const size_t wanted = std::min<uint64_t>(piece.size(), size - copied.size);
    const ssize_t count = read(from.get(), piece.data(), wanted);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::DataLossError(StrCat("cannot be read: ", std::strerror(errno)));
    if (count == 0) break;
    const std::string_view bytes(piece.data(), static_cast<size_t>(count));
    hash.Update(bytes);
    if (to.valid()) RETURN_IF_ERROR(common::WriteAll(to.get(), bytes));
    copied.size += bytes.size();
    progress(bytes.size());
  }
  copied.sha256 = hash.FinishHex();
  return copied;
}

}  // namespace

absl::StatusOr<CopiedFile> CopyFile(const Place& from, const Place& to, uint64_t size,
                                    const CopyProgress& progress) {
  ASSIGN_OR_RETURN(const UniqueFd source, OpenBelow(from.root, from.path, O_RDONLY));
  const Place draft{to.root, to.path + kDraft};
  ASSIGN_OR_RETURN(const UniqueFd target,
                   OpenBelow(draft.root, draft.path, O_WRONLY | O_CREAT | O_TRUNC,
                             /*make_directories=*/true));
  absl::StatusOr<CopiedFile> copied = ReadThrough(source, FullPath(from), target, size, progress);
  if (copied.ok() && rename(FullPath(draft).c_str(), FullPath(to).c_str()) != 0) {
    copied = common::ErrnoStatus(StrCat("cannot put ", FullPath(to), " into place"));
  }
  if (!copied.ok()) unlink(FullPath(draft).c_str());
  return copied;
}

absl::StatusOr<CopiedFile> HashFile(const Place& file, const CopyProgress& progress) {
  ASSIGN_OR_RETURN(const UniqueFd source, OpenBelow(file.root, file.path, O_RDONLY));
  return ReadThrough(source, FullPath(file), UniqueFd(), UINT64_MAX, progress);
}

absl::Status SyncFileSystem(const std::string& directory) {
  const UniqueFd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return common::ErrnoStatus(StrCat("cannot open ", directory));
  if (syncfs(fd.get()) != 0) return common::ErrnoStatus(StrCat("cannot sync ", directory));
  return absl::OkStatus();
}

}  // namespace muster::coordinator
