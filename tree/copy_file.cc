#include "tree/copy_file.h"

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/base/status.h"
#include "common/files/files.h"

namespace muster::tree {

absl::StatusOr<bool> FileCopier::Copy(int from, int to, uint64_t size) {
  if (size == 0) return false;
  if (Share(from, to)) return true;
  RETURN_IF_ERROR(CopyBytes(from, to, size));
  return false;
}

bool FileCopier::Share(int from, int to) {
  if (!may_share_) return false;
  if (ioctl(to, FICLONE, from) == 0) return true;
  // This file system cannot share blocks, or these two cannot with each other.
  may_share_ = errno != EOPNOTSUPP && errno != ENOTTY && errno != EXDEV && errno != ENOSYS;
  return false;
}

absl::Status FileCopier::CopyBytes(int from, int to, uint64_t size) {
  // Content that fits into a buffer is copied faster with two calls than with the kernel's
  // splicing.
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

}  // namespace muster::tree
