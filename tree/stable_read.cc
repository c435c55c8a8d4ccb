#include "tree/stable_read.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/base/status.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "tree/placement.h"

namespace muster::tree {
namespace {

// pread(2) of exactly `size` bytes, or as many as there are; -1: errno.
ssize_t ReadUpTo(int fd, char* buffer, size_t size, uint64_t offset) {
  size_t have = 0;
  while (have < size) {
    const ssize_t count = pread(fd, buffer + have, size - have, static_cast<off_t>(offset + have));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    have += static_cast<size_t>(count);
  }
  return static_cast<ssize_t>(have);
}

// Reads `size` bytes into the hash, and if there are few, also into file->bytes. False with errno,
// which is 0 if the file is shorter.
bool ReadInto(int fd, uint64_t size, StableFile* file) {
  const bool keep = size < kOwnObjectBytes;
  file->bytes.resize(std::min<uint64_t>(size, kOwnObjectBytes));
  common::Sha256 hash;
  for (uint64_t at = 0; at < size;) {
    const size_t wanted = std::min<uint64_t>(file->bytes.size(), size - at);
    const ssize_t count = ReadUpTo(fd, file->bytes.data(), wanted, at);
    if (count >= 0 && static_cast<size_t>(count) < wanted) errno = 0;
    if (count < 0 || static_cast<size_t>(count) < wanted) return false;
    hash.Update({file->bytes.data(), wanted});
    at += wanted;
  }
  file->content = Finish(hash);
  if (!keep) file->bytes.clear();
  return true;
}

}  // namespace

absl::Status ReadStable(Directories& directories, std::string_view path, const OnRead& on_read,
                        StableFile* file) {
  for (int tries = 0; tries < kReadTries; ++tries) {
    const common::UniqueFd fd = directories.Open(path, O_RDONLY);
    if (!fd.valid()) return common::ErrnoStatus("cannot be opened");
    struct stat before {
    }, after{};
    if (fstat(fd.get(), &before) != 0) return common::ErrnoStatus("cannot be looked at");
    if (!S_ISREG(before.st_mode)) return absl::AbortedError("is no longer a regular file");
    file->stamp = StampOf(before);
    file->kind = (before.st_mode & S_IXUSR) != 0 ? Kind::kExecutable : Kind::kFile;
    const bool whole = ReadInto(fd.get(), file->stamp.size, file);
    if (!whole && errno != 0) return common::ErrnoStatus("cannot be read");
    if (on_read) on_read(path, file->stamp.size);
    if (fstat(fd.get(), &after) != 0) return common::ErrnoStatus("cannot be looked at");
    if (whole && StampOf(after) == file->stamp) return absl::OkStatus();
  }
  return absl::AbortedError("changes while it is read (3 tries)");
}

absl::Status ChangedSince(std::string_view path) {
  return absl::AbortedError(common::StrCat(common::Printable(path), " changed while it was sent"));
}

}  // namespace muster::tree
