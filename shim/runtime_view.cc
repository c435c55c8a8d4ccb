// runtime_view: opens all pieces, mounts them below a new root in the same order, then detaches the old root.
#include "shim/runtime_view.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "common/files/plain_files.h"
#include "shim/system_mounts.h"

namespace muster::shim {
namespace {

constexpr char kView[] = "view";
constexpr char kViewOptions[] = "mode=0755,size=1m,nr_inodes=16384";
constexpr unsigned long kViewFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
constexpr size_t kNeededBytesMax = 4 << 20;
// Programs and their libraries.
constexpr const char* kSystem[] = {
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/ld.so.cache", "/sys"};
constexpr const char* kDevices[] = {"/dev/null",   "/dev/zero",    "/dev/full",
                                    "/dev/random", "/dev/urandom", "/dev/tty"};

struct Piece {
  std::string path;
  int tree = -1;
  bool is_directory = false;
  bool is_writable = false;
};

std::string NoView(const std::string& what, const std::string& path) {
  return "cannot " + what + " " + path + " for the runtime: " + std::strerror(errno);
}

bool IsBelowPath(const std::string& path, const std::string& above) {
  return path.compare(0, above.size(), above) == 0 &&
         (path.size() == above.size() || path[above.size()] == '/');
}

class View {
 public:
  // Opens a piece. A path that does not exist is skipped.
  std::string Take(const std::string& path, bool is_writable) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) return errno == ENOENT ? "" : NoView("open", path);
    const bool is_seen = std::any_of(pieces_.begin(), pieces_.end(), [&](const Piece& piece) {
      return IsBelowPath(path, piece.path) && (piece.is_writable || !is_writable);
    });
    if (is_seen) return {};
    const unsigned below = S_ISDIR(info.st_mode) ? AT_RECURSIVE : 0;
    const long tree =
        syscall(SYS_open_tree, AT_FDCWD, path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | below);
    if (tree < 0) return NoView("open", path);
    pieces_.push_back({path, static_cast<int>(tree), S_ISDIR(info.st_mode), is_writable});
    mount_attr read_only{};
    read_only.attr_set = MOUNT_ATTR_RDONLY;
    if (!is_writable && syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | below, &read_only,
                                sizeof read_only) != 0)
      return NoView("protect", path);
    return {};
  }

  // "/bin" may be a link to "usr/bin".
  std::string TakeSystem(const char* path) {
    char target[4096];
    const ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0) return Take(path, /*is_writable=*/false);
    links_.push_back({path, std::string(target, static_cast<size_t>(length))});
    return {};
  }

  // Mounts the pieces below `root`, which is relative to the working directory.
  std::string Put(const std::string& root) {
    for (const Link& link : links_) {
      if (symlink(link.target.c_str(), (root + link.path).c_str()) != 0)
        return NoView("link", link.path);
    }
    for (const Piece& piece : pieces_) {
      const std::string target = root + piece.path;
      MakePlace(target, piece.is_directory);
      if (syscall(SYS_move_mount, piece.tree, "", AT_FDCWD, target.c_str(),
                  MOVE_MOUNT_F_EMPTY_PATH) != 0)
        return NoView("mount", piece.path);
      close(piece.tree);
    }
    return {};
  }

 private:
  struct Link {
    std::string path, target;
  };

  // Makes the mount point. Below a piece that is mounted already, it exists.
  static void MakePlace(const std::string& target, bool is_directory) {
    for (size_t at = target.find('/'); at != std::string::npos; at = target.find('/', at + 1))
      mkdir(target.substr(0, at).c_str(), 0755);
    if (is_directory) {
      mkdir(target.c_str(), 0755);
    } else {
      close(open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
    }
  }

  std::vector<Piece> pieces_;
  std::vector<Link> links_;
};

std::string TakeAll(const common::LaunchContainer& container, View* view) {
  std::string needed;
  if (!common::ReadSmallFile(container.directory + "/" + common::kNeededName, &needed,
                             kNeededBytesMax))
    return NoView("read", common::kNeededName);
  std::string failure;
  for (const char* path : kSystem) {
    if (failure.empty()) failure = view->TakeSystem(path);
  }
  for (const char* path : kDevices) {
    if (failure.empty()) failure = view->Take(path, /*is_writable=*/true);
  }
  char* const program = realpath(container.runtime.c_str(), nullptr);
  for (const std::string& path :
       {container.runtime, std::string(program == nullptr ? "" : program)}) {
    if (failure.empty() && !path.empty()) failure = view->Take(path, /*is_writable=*/false);
  }
  std::free(program);
  for (const std::string& path : {std::string("/proc"), container.directory}) {
    if (failure.empty()) failure = view->Take(path, /*is_writable=*/true);
  }
  for (size_t at = 0; failure.empty() && at < needed.size();) {
    const std::string entry = needed.c_str() + at;
    at += entry.size() + 1;
    if (entry.size() > 1) failure = view->Take(entry.substr(1), entry[0] == common::kNeededToWrite);
  }
  return failure;
}

std::string ChangeRoot() {
  if (chdir(kView) != 0 || syscall(SYS_pivot_root, ".", ".") != 0 ||
      umount2(".", MNT_DETACH) != 0 || chdir("/") != 0)
    return NoView("enter", kView);
  if (mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | kViewFlags, nullptr) != 0)
    return NoView("protect", "/");
  return ProtectKernelFiles();
}

}  // namespace

std::string EnterRuntimeView(const common::LaunchContainer& container) {
  View view;
  std::string failure = TakeAll(container, &view);
  if (!failure.empty()) return failure;
  if (mkdir(kView, 0755) != 0 && errno != EEXIST) return NoView("make", kView);
  if (mount("muster", kView, "tmpfs", kViewFlags, kViewOptions) != 0) return NoView("mount", kView);
  failure = view.Put(kView);
  return failure.empty() ? ChangeRoot() : failure;
}

}  // namespace muster::shim
