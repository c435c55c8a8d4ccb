// A file system of a few inodes and bytes, mounted over a directory for this thread and those that
// it starts, until the thread ends. Not IsThere without the right to mount.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <string>

#include "common/files/files.h"

namespace muster::coordinator {

class SmallDisk {
 public:
  explicit SmallDisk(std::string directory) : directory_(std::move(directory)) {
    is_there_ = unshare(CLONE_NEWNS) == 0 &&
                mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                mount("small", directory_.c_str(), "tmpfs", 0, "size=64k,nr_inodes=12") == 0;
  }
  ~SmallDisk() {
    if (is_there_) umount2(directory_.c_str(), MNT_DETACH);
  }
  bool IsThere() const { return is_there_; }

  // One file of its own, until no byte is left.
  void FillBytes() {
    const common::UniqueFd fd = MakeFile();
    const std::string zeros(4'096, '\0');
    while (write(fd.get(), zeros.data(), zeros.size()) > 0) {
    }
  }
  // Empty files, until no inode is left.
  void FillInodes() {
    while (MakeFile().valid()) {
    }
  }
  void Free() {
    while (files_ > 0) unlink(NameOf(--files_).c_str());
  }

 private:
  std::string NameOf(int number) const { return directory_ + "/fill" + std::to_string(number); }
  common::UniqueFd MakeFile() {
    common::UniqueFd fd(open(NameOf(files_).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    if (fd.valid()) ++files_;
    return fd;
  }

  const std::string directory_;
  bool is_there_ = false;
  int files_ = 0;
};

}  // namespace muster::coordinator
