// A file system of a few inodes and bytes, mounted over a directory for this thread and those that
// it starts, until the thread ends. Not IsThere without the right to mount.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <string>

#include "common/files.h"

namespace muster::coordinator {

class SmallDisk {
 public:
  SmallDisk(std::string directory, const std::string& options) : directory_(std::move(directory)) {
    is_there_ = unshare(CLONE_NEWNS) == 0 &&
                mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                mount("small", directory_.c_str(), "tmpfs", 0, options.c_str()) == 0;
  }
  ~SmallDisk() {
    if (is_there_) umount2(directory_.c_str(), MNT_DETACH);
  }
  bool IsThere() const { return is_there_; }

  // Files of its own, until no inode or no byte is left.
  void Fill() {
    const std::string zeros(4'096, '\0');
    while (true) {
      const std::string path = directory_ + "/fill" + std::to_string(files_);
      common::UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
      if (!fd.valid()) return;
      ++files_;
      while (write(fd.get(), zeros.data(), zeros.size()) > 0) {
      }
    }
  }
  void Free() {
    while (files_ > 0) unlink((directory_ + "/fill" + std::to_string(--files_)).c_str());
  }

 private:
  const std::string directory_;
  bool is_there_ = false;
  int files_ = 0;
};

}  // namespace muster::coordinator
