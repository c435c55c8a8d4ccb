// rank_mounts: opens first what ranks may see, then covers everything, then mounts the former back.
#include "shim/rank_mounts.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "shim/system_mounts.h"

namespace muster::shim {
namespace {

constexpr char kCoverOptions[] = "mode=0755,size=64k,nr_inodes=4096";
constexpr unsigned long kCoverFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
constexpr char kSharedMemory[] = "/dev/shm";
constexpr const char* kTemporary[] = {"/tmp", "/var/tmp"};

struct Opened {
  std::string path;
  int tree = -1;
};

std::string Failed(const std::string& what, const std::string& path) {
  return "cannot " + what + " " + path + ": " + std::strerror(errno);
}

// Like mkdir -p. The directories on the way belong to the cover.
void MakePath(const std::string& path) {
  for (size_t at = 1; at != std::string::npos; at = path.find('/', at + 1)) {
    if (at > 1) mkdir(path.substr(0, at).c_str(), 0755);
  }
  mkdir(path.c_str(), 0755);
}

std::string OpenTree(const std::string& path, std::vector<Opened>* opened) {
  const long tree = syscall(SYS_open_tree, AT_FDCWD, path.c_str(),
                            OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
  if (tree < 0) return Failed("open", path);
  opened->push_back({path, static_cast<int>(tree)});
  return {};
}

std::string PutBack(const Opened& tree) {
  MakePath(tree.path);
  if (syscall(SYS_move_mount, tree.tree, "", AT_FDCWD, tree.path.c_str(),
              MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return Failed("mount", tree.path);
  }
  return {};
}

std::string Cover(const std::string& path) {
  if (mount("muster", path.c_str(), "tmpfs", kCoverFlags, kCoverOptions) != 0)
    return Failed("cover", path);
  return {};
}

std::string OwnSharedMemory(const common::LaunchAccount& account) {
  struct stat info {};
  if (stat(kSharedMemory, &info) != 0) return {};  // none here
  if (mount("muster", kSharedMemory, "tmpfs", MS_NOSUID | MS_NODEV, "mode=01777") != 0)
    return Failed("mount", kSharedMemory);
  if (account.is_other && chown(kSharedMemory, account.uid, account.gid) != 0)
    return Failed("hand over", kSharedMemory);
  return {};
}

// Opens a path of the job without following links, as a link could lead to hidden files.
std::string OpenWithoutLinks(const std::string& path, std::vector<Opened>* opened) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC | O_DIRECTORY;
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const long fd = syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how);
  if (fd < 0) return Failed("open", path);
  const long tree = syscall(SYS_open_tree, fd, "",
                            OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
  const int error = errno;
  close(static_cast<int>(fd));
  errno = error;
  if (tree < 0) return Failed("open", path);
  opened->push_back({path, static_cast<int>(tree)});
  return {};
}

// Mounts back without following links, because a rank may have put some below the attempt's own
// /tmp.
std::string PutBackWithoutLinks(const Opened& tree) {
  int at = open("/", O_PATH | O_CLOEXEC | O_DIRECTORY);
  for (size_t from = 1; at >= 0 && from < tree.path.size();) {
    const size_t to = std::min(tree.path.find('/', from), tree.path.size());
    const std::string name = tree.path.substr(from, to - from);
    mkdirat(at, name.c_str(), 0755);
    const int next = openat(at, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC | O_DIRECTORY);
    const int error = errno;
    close(at);
    errno = error;
    at = next;
    from = to + 1;
  }
  if (at < 0) return Failed("mount", tree.path);
  const long done = syscall(SYS_move_mount, tree.tree, "", at, "",
                            MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
  const int error = errno;
  close(at);
  errno = error;
  return done == 0 ? std::string() : Failed("mount", tree.path);
}

// The job decides where its paths lead, so they are looked up with the account's rights.
std::string OpenKept(const common::LaunchSandbox& sandbox, const common::LaunchAccount& account,
                     std::vector<Opened>* kept) {
  return WithFileRights(account, [&] {
    std::string failure;
    for (const std::string& path : sandbox.kept_dirs) {
      if (failure.empty()) failure = OpenWithoutLinks(path, kept);
    }
    return failure;
  });
}

std::string OpenTemporary(const common::LaunchSandbox& sandbox, std::vector<Opened>* temporary) {
  for (const char* path : kTemporary) {
    if (sandbox.temporary_dir.empty() || access(path, F_OK) != 0) continue;
    if (std::string failure = OpenTree(sandbox.temporary_dir, temporary); !failure.empty())
      return failure;
    temporary->back().path = path;
  }
  return {};
}

// Whether the path is below the attempt's own /tmp, where ranks may have put links before a command of `jobctl
// exec` arrived.
bool IsTemporary(const std::string& path, const common::LaunchSandbox& sandbox) {
  return !sandbox.temporary_dir.empty() &&
         std::any_of(std::begin(kTemporary), std::end(kTemporary), [&path](const char* above) {
           return path.starts_with(std::string(above) + "/");
         });
}

std::string PutBackAll(const std::vector<Opened>& trees, const common::LaunchSandbox& sandbox) {
  for (const Opened& tree : trees) {
    const std::string failure =
        IsTemporary(tree.path, sandbox) ? PutBackWithoutLinks(tree) : PutBack(tree);
    if (!failure.empty()) return failure;
  }
  return {};
}

// Directories below /tmp need no cover: the new /tmp hides them.
std::string CoverHidden(const common::LaunchSandbox& sandbox) {
  for (const std::string& path : sandbox.hidden_dirs) {
    if (IsTemporary(path, sandbox) || access(path.c_str(), F_OK) != 0) continue;
    if (std::string failure = Cover(path); !failure.empty()) return failure;
  }
  return {};
}

void ProtectCovers(const common::LaunchSandbox& sandbox) {
  for (const std::string& path : sandbox.hidden_dirs) {
    mount(nullptr, path.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | kCoverFlags, nullptr);
  }
}

// Runs in the short-lived process. Empty, or the reason of a failure.
std::string Arrange(const common::LaunchSandbox& sandbox, const common::LaunchAccount& account) {
  if (unshare(CLONE_NEWNS | (sandbox.has_own_ipc ? CLONE_NEWIPC : 0)) != 0) {
    return std::string("cannot make namespaces: ") + std::strerror(errno);
  }
  // What the host mounts later appears here too (a network file system on demand); nothing from
  // here appears there.
  if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
    return Failed("separate", "/");
  }
  std::vector<Opened> kept, shown, temporary;
  for (const std::string& path : sandbox.shown_dirs) {
    if (std::string failure = OpenTree(path, &shown); !failure.empty()) return failure;
  }
  std::string failure = OpenTemporary(sandbox, &temporary);
  if (failure.empty()) failure = OpenKept(sandbox, account, &kept);
  if (failure.empty()) failure = PutBackAll(temporary, sandbox);
  if (failure.empty()) failure = OwnSharedMemory(account);
  for (const Opened& each : kept) {
    if (failure.empty()) failure = PutBackWithoutLinks(each);
  }
  if (failure.empty()) failure = CoverHidden(sandbox);
  if (failure.empty()) failure = PutBackAll(shown, sandbox);
  if (failure.empty()) ProtectCovers(sandbox);
  if (failure.empty()) failure = ProtectCgroups();
  if (failure.empty() && sandbox.has_own_ipc) failure = MountOwnQueues();
  if (failure.empty() && sandbox.has_own_processes) failure = MountOwnProc();
  return failure;
}

[[noreturn]] void ArrangeAndWait(const std::function<std::string()>& arrange, int done, int go) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string failure = arrange();
  // Success is one zero byte, which differs from the end of file after a crash.
  const std::string answer = failure.empty() ? std::string(1, '\0') : failure;
  [[maybe_unused]] const ssize_t count = write(done, answer.data(), answer.size());
  close(done);
  char byte;
  [[maybe_unused]] const ssize_t end = read(go, &byte, 1);
  _exit(0);
}

std::string ReadAnswer(int fd) {
  std::string answer;
  char bytes[512];
  while (true) {
    const ssize_t count = read(fd, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return answer;
    answer.append(bytes, static_cast<size_t>(count));
  }
}

}  // namespace

std::string WithFileRights(const common::LaunchAccount& account,
                           const std::function<std::string()>& open) {
  if (!account.is_other) return open();
  static_assert(sizeof(gid_t) == sizeof(uint32_t));
  if (setgroups(account.groups.size(), account.groups.data()) != 0)
    return std::string("cannot set the groups: ") + std::strerror(errno);
  setfsgid(account.gid);
  setfsuid(account.uid);
  std::string failure = open();
  setfsuid(geteuid());
  setfsgid(getegid());
  return failure;
}

RankMounts HoldNamespaces(const std::function<std::string()>& arrange, bool own_ipc,
                          std::string* failure) {
  RankMounts held;
  int done[2], go[2];
  if (pipe2(done, O_CLOEXEC) != 0 || pipe2(go, O_CLOEXEC) != 0) {
    *failure = std::string("cannot make a pipe: ") + std::strerror(errno);
    return held;
  }
  const pid_t pid = fork();
  if (pid == 0) {
    close(done[0]);
    close(go[1]);
    ArrangeAndWait(arrange, done[1], go[0]);
  }
  close(done[1]);
  close(go[0]);
  const std::string answer = pid < 0 ? "cannot fork" : ReadAnswer(done[0]);
  if (answer.size() == 1 && answer[0] == '\0') {
    const std::string spaces = "/proc/" + std::to_string(pid) + "/ns/";
    held.mounts_fd = open((spaces + "mnt").c_str(), O_RDONLY | O_CLOEXEC);
    if (own_ipc) held.ipc_fd = open((spaces + "ipc").c_str(), O_RDONLY | O_CLOEXEC);
    if (held.mounts_fd < 0 || (own_ipc && held.ipc_fd < 0)) *failure = Failed("open", "/proc/…/ns");
  } else {
    *failure = answer.empty() ? "the process that makes them died" : answer;
  }
  close(done[0]);
  close(go[1]);
  if (pid > 0) waitpid(pid, nullptr, 0);
  return held;
}

RankMounts MakeRankMounts(const common::LaunchSandbox& sandbox,
                          const common::LaunchAccount& account, std::string* failure) {
  return HoldNamespaces([&] { return Arrange(sandbox, account); }, sandbox.has_own_ipc, failure);
}

}  // namespace muster::shim
