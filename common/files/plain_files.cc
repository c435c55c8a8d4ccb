#include "common/files/plain_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace muster::common {
namespace {

// Closes on scope exit and preserves errno.
struct ScopedFd {
  int fd;
  ~ScopedFd() {
    const int saved = errno;
    if (fd >= 0) close(fd);
    errno = saved;
  }
};

// Creates a file of ours for writing. Ranks can write to its directory, so a FIFO or link in its
// place is removed first.
int OpenBeside(const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;
  const int fd = open(path.c_str(), kFlags, 0600);
  struct stat info {};
  if (fd < 0 && errno != ENXIO && errno != ELOOP) return fd;
  if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) return fd;
  if (fd >= 0) close(fd);
  unlink(path.c_str());
  return open(path.c_str(), kFlags | O_EXCL, 0600);
}

// Unless reserved, does not use a file that an earlier process left there, or another user's FIFO.
int CreateBeside(const Replacing& how) {
  if (how.is_reserved) return OpenBeside(how.temporary);
  unlink(how.temporary.c_str());
  return open(how.temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, how.mode);
}

bool Place(const char* from, const char* to, bool must_be_new) {
  if (!must_be_new) return rename(from, to) == 0;
  if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return true;
  // Some file systems lack RENAME_NOREPLACE; link(2) also refuses a name that is taken.
  return (errno == EINVAL || errno == ENOSYS) && link(from, to) == 0 && unlink(from) == 0;
}

ReplaceStep WriteAndPlace(const std::string& path, std::string_view content, const Replacing& how) {
  {
    ScopedFd file{CreateBeside(how)};
    if (file.fd < 0) return ReplaceStep::kCreate;
    // Not O_TRUNC: this must reuse the blocks that ReserveFile allocated.
    if (!WriteAllFd(file.fd, content) ||
        (how.is_reserved && ftruncate(file.fd, static_cast<off_t>(content.size())) != 0))
      return ReplaceStep::kWrite;
    if (how.is_durable && fsync(file.fd) != 0) return ReplaceStep::kSync;
  }
  if (!Place(how.temporary.c_str(), path.c_str(), how.must_be_new)) return ReplaceStep::kPlace;
  if (!how.is_durable) return ReplaceStep::kDone;
  const std::string parent = path.substr(0, path.rfind('/') + 1);
  ScopedFd directory{
      open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  const bool is_synced = directory.fd >= 0 && fsync(directory.fd) == 0;
  return is_synced ? ReplaceStep::kDone : ReplaceStep::kSyncDirectory;
}

}  // namespace

bool ReadSmallFile(const std::string& path, std::string* content, size_t max_bytes) {
  content->clear();
  // Some of these paths are where ranks can create a FIFO.
  ScopedFd file{open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)};
  return file.fd >= 0 && ReadAllFd(file.fd, content, max_bytes);
}

bool ReadAllFd(int fd, std::string* content, size_t max_bytes) {
  char buffer[16 * 1024];
  while (true) {
    const ssize_t count = read(fd, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    if (count == 0) return true;
    if (content->size() + static_cast<size_t>(count) > max_bytes) {
      errno = EFBIG;
      return false;
    }
    content->append(buffer, static_cast<size_t>(count));
  }
}

bool WriteAllFd(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t count = write(fd, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    content.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

bool WriteControlFile(const std::string& path, std::string_view content) {
  ScopedFd file{open(path.c_str(), O_WRONLY | O_CLOEXEC)};
  return file.fd >= 0 && WriteAllFd(file.fd, content);
}

ReplaceStep ReplaceFile(const std::string& path, std::string_view content, const Replacing& how) {
  const ReplaceStep step = WriteAndPlace(path, content, how);
  if (step >= ReplaceStep::kSyncDirectory || how.is_reserved) return step;
  const int error = errno;
  unlink(how.temporary.c_str());
  errno = error;
  return step;
}

bool ReplaceFile(const std::string& path, std::string_view content, bool durable) {
  const Replacing how{.temporary = path + ".tmp", .is_durable = durable, .is_reserved = true};
  return ReplaceFile(path, content, how) == ReplaceStep::kDone;
}

void ReserveFile(const std::string& path, int64_t bytes) {
  ScopedFd file{OpenBeside(path)};
  if (file.fd >= 0) fallocate(file.fd, 0, 0, bytes);
}

}  // namespace muster::common
