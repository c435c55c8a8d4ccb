// A disk that fails at a sync, and, as Linux does then, has forgotten by the next one that anything
// was not written: what was not synced before is gone from the file. For a test program's one source
// file: it defines the system calls.
#pragma once

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <string>

namespace muster::coordinator {

class FailingSync {
 public:
  // While it lives, the next `times` syncs of files whose path contains `name` fail.
  FailingSync(std::string name, int times, int error = EIO) {
    std::lock_guard lock(mutex_);
    name_ = std::move(name);
    times_ = times;
    error_ = error;
  }
  ~FailingSync() {
    std::lock_guard lock(mutex_);
    times_ = 0;
  }
  static int Left() {
    std::lock_guard lock(mutex_);
    return times_;
  }

  static int Fdatasync(int fd) {
    struct stat info {};
    fstat(fd, &info);
    std::lock_guard lock(mutex_);
    if (times_ > 0 && PathOf(fd).find(name_) != std::string::npos) {
      --times_;
      LoseUnsynced(fd, info);
      errno = error_;
      return -1;
    }
    const auto result = syscall(SYS_fdatasync, fd);
    if (result == 0) synced_[info.st_ino] = info.st_size;
    return static_cast<int>(result);
  }
  // It does not say whose data could not be written.
  static int Syncfs(int fd) {
    std::lock_guard lock(mutex_);
    if (times_ == 0) return static_cast<int>(syscall(SYS_syncfs, fd));
    errno = error_;
    return -1;
  }

 private:
  static std::string PathOf(int fd) {
    char path[4096] = {};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    return readlink(link.c_str(), path, sizeof path - 1) < 0 ? "" : path;
  }
  static void LoseUnsynced(int fd, const struct stat& info) {
    const off_t from = std::min(synced_[info.st_ino], info.st_size);
    const std::string zeros(static_cast<size_t>(info.st_size - from), '\0');
    if (pwrite(fd, zeros.data(), zeros.size(), from) < 0) errno = EIO;
  }

  inline static std::mutex mutex_;  // guards what follows
  inline static std::string name_;
  inline static int times_ = 0;
  inline static int error_ = EIO;
  inline static std::map<ino_t, off_t> synced_;  // how much of a file
};

}  // namespace muster::coordinator

extern "C" {
int fdatasync(int fd) { return muster::coordinator::FailingSync::Fdatasync(fd); }
int syncfs(int fd) noexcept { return muster::coordinator::FailingSync::Syncfs(fd); }
}
