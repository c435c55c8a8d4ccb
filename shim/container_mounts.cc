#include "shim/container_mounts.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

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
  // Its file system cannot hold one, as an overlay cannot: then it is in memory.
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
  int tree = -1;
  bool is_directory = false;
};

// What the job names is looked up with its account's rights, and no link on the way is followed: it
// could change after whoever checked it.
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
    if (tree >= 0) sources->push_back({static_cast<int>(tree), is_directory});
  }
  close(static_cast<int>(fd));
  return failure;
}

std::string PutSources(const std::vector<Source>& sources) {
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::string target = "mounts/" + std::to_string(i);
    if (sources[i].is_directory) {
      mkdir(target.c_str(), 0755);
    } else {
      close(open(target.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
    }
    if (syscall(SYS_move_mount, sources[i].tree, "", AT_FDCWD, target.c_str(),
                MOVE_MOUNT_F_EMPTY_PATH) != 0)
      return Because("cannot mount into " + target);
    close(sources[i].tree);
  }
  return {};
}

// At a path that the bundles know before there is one.
std::string PutProcesses(int processes_fd) {
  if (processes_fd < 0) return {};
  const std::string space = "/proc/self/fd/" + std::to_string(processes_fd);
  const char* const name = common::kProcessSpaceName;
  close(open(name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (mount(space.c_str(), name, nullptr, MS_BIND, nullptr) == 0) return {};
  return Because("cannot mount the PID namespace");
}

// Programs expect one, whatever the image has. A link or a file of that name stays.
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
  umask(022);  // "/" of the ranks is among what is made here
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
  // The ranks are in their cgroups already. Where it can, the runtime would make others for each
  // container, which would hold the ranks back from their limits' counters and outlive them.
  if (failure.empty()) failure = ProtectCgroups();
  if (failure.empty()) failure = LayOverImage(container);
  if (failure.empty()) MakeTmp();
  if (failure.empty()) failure = MountSharedMemory(container, account);
  if (failure.empty()) failure = PutSources(sources);
  if (failure.empty()) failure = PutProcesses(processes_fd);
  if (failure.empty() && chdir("/") != 0) failure = Because("cannot leave the directory");
  return failure;
}

RankMounts MakeContainerMounts(const common::LaunchContainer& container,
                               const common::LaunchAccount& account, int processes_fd,
                               std::string* failure) {
  return HoldNamespaces([&] { return EnterContainerMounts(container, account, processes_fd); },
                        /*own_ipc=*/true, failure);
}

}  // namespace muster::shim
