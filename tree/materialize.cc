#include "tree/materialize.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "common/files.h"
#include "common/status.h"
#include "tree/directories.h"

namespace muster::tree {
namespace {

class Copier {
 public:
  Copier(int source, Materialized* done) : directories_(source), done_(*done) {}

  absl::Status Copy(const Entry& entry, int to) {
    const common::UniqueFd from = directories_.Open(entry.path, O_RDONLY);
    struct stat info {};
    if (!from.valid() || fstat(from.get(), &info) != 0) {
      return absl::FailedPreconditionError(
          common::MessageOf(common::ErrnoStatus("it cannot be read in the tree to be copied")));
    }
    if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) != entry.size) {
      return absl::FailedPreconditionError("it was changed in the tree to be copied");
    }
    if (entry.size == 0) return absl::OkStatus();
    if (Share(from.get(), to)) {
      ++done_.shared_files;
      return absl::OkStatus();
    }
    ++done_.copied_files;
    return CopyBytes(from.get(), to, entry.size);
  }

 private:
  bool Share(int from, int to) {
    if (!may_share_) return false;
    if (ioctl(to, FICLONE, from) == 0) return true;
    // Of this file system none, or none between these two.
    may_share_ = errno != EOPNOTSUPP && errno != ENOTTY && errno != EXDEV && errno != ENOSYS;
    return false;
  }

  absl::Status CopyBytes(int from, int to, uint64_t size) {
    // What fits into a buffer is copied sooner by two calls than by the kernel's splicing.
    constexpr uint64_t kSmallBytes = 1 << 20;
    uint64_t left = size;
    while (may_copy_range_ && left > 0 && size >= kSmallBytes) {
      const ssize_t count = copy_file_range(from, nullptr, to, nullptr, left, 0);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && (errno == ENOSPC || errno == EDQUOT)) {
        return common::ErrnoStatus("cannot write");
      }
      if (count <= 0) may_copy_range_ = false;  // some kernels and file systems: read and write
      if (count > 0) left -= static_cast<uint64_t>(count);
    }
    buffer_.resize(kSmallBytes);
    while (left > 0) {
      const ssize_t count = read(from, buffer_.data(), std::min<uint64_t>(buffer_.size(), left));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return common::ErrnoStatus("cannot read the tree to be copied");
      if (count == 0) return absl::FailedPreconditionError("it shrank in the tree to be copied");
      RETURN_IF_ERROR(common::WriteAll(to, {buffer_.data(), static_cast<size_t>(count)}));
      left -= static_cast<uint64_t>(count);
    }
    return absl::OkStatus();
  }

  Directories directories_;
  Materialized& done_;
  bool may_share_ = true;
  bool may_copy_range_ = true;
  std::vector<char> buffer_;
};

}  // namespace

absl::Status Materialize(const Manifest& manifest, int source, const TreeTarget& target,
                         Materialized* done) {
  Copier copier(source, done);
  return WriteTree(manifest, target,
                   [&](size_t at, int fd) { return copier.Copy(manifest.entries[at], fd); });
}

}  // namespace muster::tree
