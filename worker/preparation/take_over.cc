#include "worker/preparation/take_over.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "tree/copy_file.h"

namespace muster::worker {
namespace {

// limit: setup: entries of what it leaves; the attempt fails
constexpr uint64_t kSetupEntriesMax = 2'000'000;
constexpr int kSetupDepthMax = 128;
constexpr uint64_t kStatBlockBytes = 512;
constexpr int kOpenFlags = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
constexpr char kCopyName[] = ".muster-copy";

struct CloseDirectory {
  void operator()(DIR* listing) const { closedir(listing); }
};

class Taker {
 public:
  Taker(bool changes_owner, const std::function<bool()>& stopped)
      : changes_owner_(changes_owner), stopped_(stopped) {}

  absl::Status Take(int above, const std::string& name, int depth) {
    if (depth > kSetupDepthMax) return TooMuch("levels of directories", kSetupDepthMax);
    const int fd = openat(above, name.c_str(), O_RDONLY | O_DIRECTORY | kOpenFlags);
    if (fd < 0) return Failed("open", name);
    // Takes the directory before its entries: then only this process can change them.
    if (changes_owner_ && (fchown(fd, geteuid(), getegid()) != 0 || fchmod(fd, 0755) != 0)) {
      const absl::Status failed = Failed("take over", name);
      close(fd);
      return failed;
    }
    const std::unique_ptr<DIR, CloseDirectory> listing(fdopendir(fd));
    if (listing == nullptr) {
      close(fd);
      return Failed("list", name);
    }
    errno = 0;
    while (const dirent* entry = readdir(listing.get())) {
      const std::string child = entry->d_name;
      if (child == "." || child == "..") continue;
      if (stopped_()) return absl::CancelledError("the attempt was stopped");
      if (++entries_ > kSetupEntriesMax) return TooMuch("files and directories", kSetupEntriesMax);
      RETURN_IF_ERROR(TakeEntry(fd, child, depth));
      errno = 0;
    }
    return errno == 0 ? absl::OkStatus() : Failed("list", name);
  }
  uint64_t bytes() const { return bytes_; }

 private:
  static absl::Status Failed(std::string_view what, const std::string& name) {
    // Whatever the errno, the node's disk is at fault.
    return absl::InternalError(common::MessageOf(common::ErrnoStatus(common::StrCat(
        "cannot ", what, " ", common::Printable(name), ", which the job's setup made"))));
  }
  static absl::Status TooMuch(std::string_view what, uint64_t most) {
    return absl::FailedPreconditionError(
        common::StrCat("the job's setup left more than ", most, " ", what));
  }

  absl::Status TakeEntry(int above, const std::string& name, int depth) {
    struct stat info {};
    if (fstatat(above, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
      return errno == ENOENT ? absl::OkStatus() : Failed("read", name);  // a copy that was renamed
    if (S_ISDIR(info.st_mode)) return Take(above, name, depth + 1);
    bytes_ += static_cast<uint64_t>(info.st_blocks) * kStatBlockBytes;
    if (!changes_owner_) return absl::OkStatus();
    if (S_ISREG(info.st_mode)) {
      return info.st_nlink > 1 ? Replace(above, name) : TakeFile(above, name);
    }
    const bool is_done = S_ISLNK(info.st_mode) ? fchownat(above, name.c_str(), geteuid(), getegid(),
                                                          AT_SYMLINK_NOFOLLOW) == 0
                                               : unlinkat(above, name.c_str(), 0) == 0;
    return is_done ? absl::OkStatus() : Failed("take over", name);
  }

  // The owner first: that clears set-id bits, and from then on the old owner cannot set them again.
  static absl::Status Own(int fd, const struct stat& info, const std::string& name) {
    const mode_t mode = (info.st_mode & S_IXUSR) != 0 ? 0755 : 0644;
    if (fchown(fd, geteuid(), getegid()) == 0 && fchmod(fd, mode) == 0) return absl::OkStatus();
    return Failed("take over", name);
  }

  absl::Status TakeFile(int above, const std::string& name) {
    const common::UniqueFd fd(openat(above, name.c_str(), O_RDONLY | kOpenFlags));
    struct stat info {};
    if (!fd.valid() || fstat(fd.get(), &info) != 0) return Failed("open", name);
    return Own(fd.get(), info, name);
  }

  absl::Status Replace(int above, const std::string& name) {
    const common::UniqueFd fd(openat(above, name.c_str(), O_RDONLY | kOpenFlags));
    struct stat info {};
    if (!fd.valid() || fstat(fd.get(), &info) != 0) return Failed("open", name);
    unlinkat(above, kCopyName, 0);
    const common::UniqueFd copy(
        openat(above, kCopyName, O_WRONLY | O_CREAT | O_EXCL | kOpenFlags, 0600));
    if (!copy.valid()) return Failed("copy", name);
    RETURN_IF_ERROR(
        files_.Copy(fd.get(), copy.get(), static_cast<uint64_t>(info.st_size)).status());
    RETURN_IF_ERROR(Own(copy.get(), info, name));
    if (renameat(above, kCopyName, above, name.c_str()) != 0) return Failed("replace", name);
    return absl::OkStatus();
  }

  const bool changes_owner_;
  const std::function<bool()>& stopped_;
  tree::FileCopier files_;
  uint64_t entries_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace

absl::StatusOr<uint64_t> TakeOver(int directory, bool changes_owner,
                                  const std::function<bool()>& stopped) {
  Taker taker(changes_owner, stopped);
  RETURN_IF_ERROR(taker.Take(directory, ".", 0));
  return taker.bytes();
}

}  // namespace muster::worker
