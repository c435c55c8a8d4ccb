#include "shim/container_mounts.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "shim/runtime_view.h"
#include "shim/system_mounts.h"

namespace muster::shim {
namespace {

constexpr unsigned long kLayerFlags = MS_NOSUID | MS_NODEV;
constexpr char kLayers[] = "lowerdir=image,upperdir=upper,workdir=work";

std::string Because(const std::string& what) { return what + ": " + std::strerror(errno); }

// Options are relative names: no path in them can be mistaken for an option.
std::string LayOverImage(const common::LaunchContainer& container) {
  if (mount(container.image_root.c_str(), "image", nullptr, MS_BIND, nullptr) != 0)
    return Because("cannot mount the image " + container.image_root);
  if (mount("muster", "root", "overlay", kLayerFlags, kLayers) == 0) return {};
  // The file system cannot hold the upper layer (an overlay cannot, for example), so the layer is
  // in memory.
  if (mount("muster", "memory", "tmpfs", kLayerFlags, "mode=0700") != 0)
    return Because("cannot mount a tmpfs");
  if (mkdir("memory/upper", 0755) != 0 || mkdir("memory/work", 0700) != 0)
    return Because("cannot make a directory");
  if (mount("muster", "root", "overlay", kLayerFlags,
            "lowerdir=image,upperdir=memory/upper,workdir=memory/work") != 0)
    return Because("cannot lay a writable layer over the image");
  return {};
}

std::string MountSharedMemory(const common::LaunchContainer& container,
                              const common::LaunchAccount& account) {
  std::string options = "mode=01777";
  if (container.shm_bytes > 0) options += ",size=" + std::to_string(container.shm_bytes);
  if (mount("muster", "shm", "tmpfs", MS_NOSUID | MS_NODEV, options.c_str()) != 0)
    return Because("cannot mount /dev/shm");
  if (account.is_other && chown("shm", account.uid, account.gid) != 0)
    return Because("cannot hand over /dev/shm");
  return {};
}

struct Source {
  std::string path;
  int tree = -1;
  bool is_directory = false;
};

// A path that the job names is looked up with its account's rights, and no link on the way is
// followed, because a link could change after the worker has checked it.
std::string OpenSource(const std::string& path, std::vector<Source>* sources) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const long fd = syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how);
  if (fd < 0) return Because("cannot mount " + path);
  struct stat info {};
  std::string failure;
  if (fstat(static_cast<int>(fd), &info) != 0) failure = Because("cannot mount " + path);
  const bool is_directory = S_ISDIR(info.st_mode);
  if (failure.empty() && !is_directory && !S_ISREG(info.st_mode))
    failure = "cannot mount " + path + ": it is neither a directory nor a regular file";
  if (failure.empty()) {
    const long tree = syscall(SYS_open_tree, fd, "",
                              OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
    if (tree < 0) failure = Because("cannot mount " + path);
    if (tree >= 0) sources->push_back({path, static_cast<int>(tree), is_directory});
  }
  close(static_cast<int>(fd));
  return failure;
}

// Opens a directory or file on the way to a mount point inside another mount, and creates it if it is missing.
// Follows no link, because the job may change it at any moment.
int StepInto(int at, const std::string& name, bool is_directory) {
  if (is_directory) {
    mkdirat(at, name.c_str(), 0755);
  } else {
    close(openat(at, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  }
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC | (is_directory ? O_DIRECTORY : 0);
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_BENEATH;
  return static_cast<int>(syscall(SYS_openat2, at, name.c_str(), &how, sizeof how));
}

// `place`: "0/in/there".
int OpenPlace(const std::string& place, bool is_directory) {
  int at = open("mounts", O_PATH | O_DIRECTORY | O_CLOEXEC);
  for (size_t from = 0; at >= 0 && from < place.size();) {
    const size_t to = std::min(place.find('/', from), place.size());
    const int next = StepInto(at, place.substr(from, to - from), to < place.size() || is_directory);
    const int error = errno;
    close(at);
    errno = error;
    at = next;
    from = to + 1;
  }
  return at;
}

std::string PutSource(const Source& source, const std::string& place,
                      const common::LaunchAccount& account) {
  const bool is_inside = place.find('/') != std::string::npos;
  mount_attr read_only{};
  read_only.attr_set = MOUNT_ATTR_RDONLY;
  if (place[0] == common::kNeededToRead &&
      syscall(SYS_mount_setattr, source.tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &read_only,
              sizeof read_only) != 0)
    return Because("cannot protect a mount");
  int target = -1;
  const auto open_place = [&] {
    target = OpenPlace(place.substr(1), source.is_directory);
    return std::string();
  };
  std::string failure = is_inside ? WithFileRights(account, open_place) : open_place();
  if (!failure.empty()) return failure;
  const bool is_put =
      target >= 0 && syscall(SYS_move_mount, source.tree, "", target, "",
                             MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0;
  if (!is_put && is_inside) {
    failure = Because("cannot mount " + source.path + " at " + place.substr(place.find('/') + 1) +
                      " of another mount") +
              "; fix: make it there, with no link on the way";
  } else if (!is_put) {
    failure = Because("cannot mount " + source.path);
  }
  if (target >= 0) close(target);
  return failure;
}

// Mounts that contain others come first.
std::string PutSources(const std::vector<Source>& sources, const std::vector<std::string>& places,
                       const common::LaunchAccount& account) {
  if (places.size() != sources.size()) return "the mounts have no places";
  std::vector<size_t> order(sources.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&places](size_t one, size_t other) {
    return places[one].size() < places[other].size();
  });
  std::string failure;
  for (const size_t i : order) {
    if (failure.empty()) failure = PutSource(sources[i], places[i], account);
    close(sources[i].tree);
  }
  return failure;
}

// Mounts the namespace at a fixed path, which the bundles name before the namespace exists.
std::string PutProcesses(int processes_fd) {
  if (processes_fd < 0) return {};
  const std::string space = "/proc/self/fd/" + std::to_string(processes_fd);
  const char* const name = common::kProcessSpaceName;
  close(open(name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (mount(space.c_str(), name, nullptr, MS_BIND, nullptr) == 0) return {};
  return Because("cannot mount the PID namespace");
}

// Programs expect a /tmp, even if the image has none. A link or a file of that name stays.
void MakeTmp() {
  if (mkdir("root/tmp", 0777) == 0) chmod("root/tmp", 01777);
}

std::string MakeDirectories() {
  for (const char* name : {"image", "root", "upper", "work", "shm", "mounts", "memory"}) {
    if (mkdir(name, 0755) != 0 && errno != EEXIST) return Because("cannot make a directory");
  }
  return {};
}

}  // namespace

std::string EnterContainerMounts(const common::LaunchContainer& container,
                                 const common::LaunchAccount& account, int processes_fd) {
  if (unshare(CLONE_NEWNS | CLONE_NEWIPC) != 0) return Because("cannot make namespaces");
  if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0)
    return Because("cannot separate the mounts");
  umask(022);  // the ranks' "/" is made here, too
  if (chdir(container.directory.c_str()) != 0)
    return Because("cannot enter " + container.directory);
  std::vector<Source> sources;
  std::string failure = WithFileRights(account, [&] {
    std::string failed;
    for (const std::string& path : container.sources) {
      if (failed.empty()) failed = OpenSource(path, &sources);
    }
    return failed;
  });
  if (failure.empty()) failure = MakeDirectories();
  // The ranks are in their cgroups already. If it could, the runtime would create another one for
  // each container; the counters of the limits would then miss the ranks, and these cgroups would
  // outlive them.
  if (failure.empty()) failure = ProtectCgroups();
  if (failure.empty()) failure = LayOverImage(container);
  if (failure.empty()) MakeTmp();
  if (failure.empty()) failure = MountSharedMemory(container, account);
  if (failure.empty()) failure = PutSources(sources, container.places, account);
  if (failure.empty()) failure = PutProcesses(processes_fd);
  return failure.empty() ? EnterRuntimeView(container) : failure;
}

RankMounts MakeContainerMounts(const common::LaunchContainer& container,
                               const common::LaunchAccount& account, int processes_fd,
                               std::string* failure) {
  return HoldNamespaces([&] { return EnterContainerMounts(container, account, processes_fd); },
                        /*own_ipc=*/true, failure);
}

}  // namespace muster::shim
