// RemoveTree of files.h. The tree may be a job's: arbitrarily deep, with directories that its owner may
// not enter or write to. Therefore few descriptors are held at a time and recursion is bounded: directories
// that are too deep are moved up to the root first.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"

namespace muster::common {
namespace {

constexpr int kDepthMax = 16;
constexpr int kNamesTried = 1'000;  // the tree may already contain the names we pick
constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

class Removal {
 public:
  explicit Removal(int root) : root_(root) {}

  // Removes everything in the directory and closes it; directories that are too deep end up in the root.
  // False: something could not be removed, and errno has the reason.
  bool Empty(int directory, int depth) {
    fchmod(directory, 0700);  // "chmod -R a-w" must not keep its owner from removing what is in it
    DIR* listing = fdopendir(directory);
    if (listing == nullptr) {
      close(directory);
      return false;
    }
    bool removed = true;
    while (const dirent* entry = removed ? readdir(listing) : nullptr) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") removed = Remove(directory, name, depth);
    }
    const int error = errno;
    closedir(listing);
    errno = error;
    return removed;
  }
  bool moved() const { return moved_ > 0; }
  void Again() { moved_ = 0; }

 private:
  bool Remove(int directory, const std::string& name, int depth) {
    if (unlinkat(directory, name.c_str(), 0) == 0 || errno == ENOENT) return true;
    if (errno != EISDIR && errno != EPERM) return false;
    if (unlinkat(directory, name.c_str(), AT_REMOVEDIR) == 0) return true;
    if (depth >= kDepthMax) {
      ++moved_;
      return MoveUp(directory, name);
    }
    int below = openat(directory, name.c_str(), kDirectory);
    if (below < 0 && errno == EACCES && fchmodat(directory, name.c_str(), 0700, 0) == 0) {
      below = openat(directory, name.c_str(), kDirectory);
    }
    if (below < 0 || !Empty(below, depth + 1)) return false;
    return unlinkat(directory, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT;
  }

  bool MoveUp(int directory, const std::string& name) {
    // Moving a directory writes its "..", so it must be writable. Its owner may replace it by a link at any
    // moment, and a change of mode by name would follow that link.
    const UniqueFd moved(openat(directory, name.c_str(), kDirectory));
    const bool may_write = moved.valid()
                               ? fchmod(moved.get(), 0700) == 0
                               : errno == EACCES && fchmodat(directory, name.c_str(), 0700, 0) == 0;
    if (!may_write) return false;
    for (int i = 0; i < kNamesTried; ++i) {
      const std::string up = StrCat("deep-", getpid(), "-", ++moves_);
      if (renameat(directory, name.c_str(), root_, up.c_str()) == 0) return true;
      if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR) return false;
    }
    return false;
  }

  const int root_;
  uint64_t moves_ = 0;  // number in the next name
  uint64_t moved_ = 0;  // in this pass
};

}  // namespace

absl::Status RemoveTree(const std::string& path) {
  if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  const bool may_be_directory = errno == EISDIR || errno == EPERM || errno == EACCES;
  if (!may_be_directory) return ErrnoStatus(StrCat("cannot remove ", path));
  UniqueFd root(open(path.c_str(), kDirectory));
  if (!root.valid() && errno == EACCES && chmod(path.c_str(), 0700) == 0) {
    root = UniqueFd(open(path.c_str(), kDirectory));
  }
  if (!root.valid()) return ErrnoStatus(StrCat("cannot remove ", path));
  Removal removal(root.get());
  do {
    removal.Again();
    const int listed = openat(root.get(), ".", kDirectory);
    if (listed < 0 || !removal.Empty(listed, 0)) {
      return ErrnoStatus(StrCat("cannot remove the contents of ", path));
    }
  } while (removal.moved());
  if (rmdir(path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(StrCat("cannot remove ", path));
  }
  return absl::OkStatus();
}

}  // namespace muster::common
