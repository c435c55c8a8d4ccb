#include "worker/containers/rank_containers.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/job/code.h"
#include "common/text/relative_path.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "worker/confinement/isolation.h"
#include "worker/confinement/secret_files.h"
#include "worker/containers/bundle.h"
#include "worker/containers/device_files.h"
#include "worker/containers/find_in_image.h"
#include "worker/containers/layer_access.h"
#include "worker/containers/mount_sources.h"
#include "worker/containers/mount_targets.h"

namespace muster::worker {
namespace {

using common::IsWithin;
using common::StrCat;
using job::TargetOf;

constexpr int kExitNotInImage = 126;
constexpr int kExitNoProgram = 127;
// limit: images: mounts of a job; refused
constexpr int kMountsMax = 64;
constexpr char kNoHome[] = "/tmp";
// Variables about the ranks' account on the node. An image is a different system.
const std::set<std::string, std::less<>> kNodeVariables = {"PATH", "HOME", "USER", "LOGNAME"};
// Files about the network, which is the node's.
constexpr const char* kNodeFiles[] = {"/etc/hosts", "/etc/resolv.conf"};
// File systems that cannot hold the writable layer of an overlay. Source: linux/magic.h.
constexpr decltype(statfs::f_type) kNoLayers[] = {OVERLAYFS_SUPER_MAGIC, NFS_SUPER_MAGIC,
                                                  FUSE_SUPER_MAGIC, V9FS_MAGIC};
constexpr const char* kHookPlaces[] = {"/etc", "/opt", "/run", "/var/run"};
constexpr std::string_view kSystemDirs[] = {"/proc", "/sys", "/dev"};

using Variables = std::map<std::string, std::string, std::less<>>;

Variables Parse(const std::vector<std::string>& env) {
  Variables variables;
  for (const std::string& entry : env) {
    const size_t equals = entry.find('=');
    if (equals != std::string::npos) variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return variables;
}

bool IsPlainPath(const std::string& path) {
  return path == "/" ||
         (path.starts_with('/') && common::StaysInside(std::string_view(path).substr(1)));
}

LaunchProblem Problem(int error, std::string text) {
  return {error, error == ENOENT ? kExitNoProgram : kExitNotInImage, std::move(text)};
}

bool HoldsAnother(const std::vector<std::string>& places, size_t i) {
  const std::string start = StrCat(i, "/");
  return std::any_of(places.begin(), places.end(), [&start](const std::string& place) {
    return place.compare(1, start.size(), start) == 0;
  });
}

// Mount points as the runtime gets them: the image's links are resolved, so that it follows none. What
// lies below an earlier mount does not belong to the image.
class Targets {
 public:
  explicit Targets(int root) : root_(root) {}

  std::string Add(const std::string& path) {
    std::string target = Find(path);
    known_.emplace_back(path, target);
    return target;
  }

 private:
  std::string Find(const std::string& path) const {
    for (const std::string_view system : kSystemDirs) {
      if (IsWithin(path, system)) return path;  // the runtime mounts these itself
    }
    for (auto known = known_.rbegin(); known != known_.rend(); ++known) {
      if (IsWithin(path, known->first)) return known->second + path.substr(known->first.size());
    }
    return PathWithoutLinks(root_, path).value_or(path);  // was checked before
  }

  const int root_;
  std::vector<std::pair<std::string, std::string>> known_;
};

class Wrapping {
 public:
  Wrapping(const ContainerPlace& place, const ReadyImage& image, const v1::JobSpec& spec,
           const v1::NodePart& part, const RankAccount& account, const PreparedPlace& prepared)
      : place_(place),
        image_(image),
        spec_(spec),
        part_(part),
        account_(account),
        prepared_(prepared) {}

  // Everything but the files.
  std::optional<LaunchProblem> Check(std::vector<common::RankLaunch>* ranks) {
    root_ = common::UniqueFd(open(image_.root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root_.valid())
      return Refused(StrCat("its files are gone: ", std::strerror(errno)), "submit the job again");
    if (const std::string path = SystemPathThatLeadsAway(root_.get()); !path.empty()) {
      return Refused(StrCat("its ", path, " is not a directory but a link or a file"),
                     StrCat("make the image with an empty directory ", path));
    }
    if (auto problem = CheckMounts()) return problem;
    if (auto problem = CheckOutputs()) return problem;
    absl::StatusOr<CdiEdits> devices = DeviceEdits(part_);
    if (!devices.ok()) return Refused(common::MessageOf(devices.status()), "");
    devices_ = *std::move(devices);
    for (common::RankLaunch& rank : *ranks) {
      Adapt(&rank);
      if (auto problem = CheckRank(rank)) return problem;
    }
    return std::nullopt;
  }

  std::optional<LaunchProblem> Write(const std::vector<common::RankLaunch>& ranks) {
    absl::Status written = common::RemoveTree(place_.directory);
    if (written.ok()) written = common::MakeDirectories(place_.directory);
    if (written.ok() && account_.ids.is_other) {
      written = LetPass(place_.directory, account_.ids.uid);
      if (absl::IsUnimplemented(written)) written = absl::OkStatus();
    }
    if (written.ok()) written = common::MakeDirectories(place_.directory + "/run");
    if (written.ok()) written = common::MakeDirectories(BarrierDirectory());
    if (!place_.shim_binary.empty() && ranks.size() > 1) {
      devices_.hooks.push_back({.path = place_.shim_binary,
                                .args = {place_.shim_binary, common::kBarrierArgument,
                                         BarrierDirectory(), StrCat(ranks.size())},
                                .env = {}});
    }
    for (const common::RankLaunch& rank : ranks) {
      if (written.ok()) written = WriteOne(rank);
    }
    if (written.ok()) written = WriteNeeded();
    if (written.ok()) return std::nullopt;
    return Refused(common::MessageOf(written), "check the disk of that node's --state-dir");
  }

 private:
  LaunchProblem Refused(const std::string& why, const std::string& fix) const {
    return Problem(EINVAL, StrCat("node ", place_.node, " cannot run the image ", image_.name, ": ",
                                  why, fix.empty() ? "" : StrCat("; fix: ", fix)));
  }

  std::string BarrierDirectory() const { return place_.directory + "/meeting"; }
  bool IsMounted(const std::string& path) const {
    return std::any_of(spec_.container().mounts().begin(), spec_.container().mounts().end(),
                       [&](const v1::Mount& each) { return IsWithin(path, TargetOf(each)); }) ||
           std::any_of(mounts_.paths.begin(), mounts_.paths.end(),
                       [&](const std::string& each) { return IsWithin(path, each); }) ||
           std::any_of(place_.own.begin(), place_.own.end(),
                       [&](const std::string& each) { return IsWithin(path, each); }) ||
           std::any_of(place_.fixed.begin(), place_.fixed.end(),
                       [&](const std::string& each) { return IsWithin(path, each); });
  }

  std::optional<LaunchProblem> CheckMounts() {
    if (spec_.container().mounts_size() > kMountsMax)
      return Refused(StrCat("it has more than ", kMountsMax, " mounts"),
                     "mount a directory that holds several");
    for (const v1::Mount& mount : spec_.container().mounts()) {
      const std::string target = TargetOf(mount);
      for (const std::string& path : {mount.source(), target}) {
        if (!IsPlainPath(path))
          return Refused(StrCat("the mount ", common::Printable(path),
                                " is not an absolute path "
                                "without . and .."),
                         "write it as one");
      }
      if (auto problem = CheckTarget(mount, target)) return problem;
      for (const std::string& hidden : place_.hidden) {
        if (IsWithin(mount.source(), hidden) || IsWithin(hidden, mount.source()))
          return CoversOwn(mount, hidden);
      }
      if (HoldsSecrets(mount.source()))
        return Refused(StrCat("the mount ", mount.source(),
                              " would show the files in which other jobs get their secrets"),
                       "mount a directory that is not in /dev/shm, or name one below it");
      if (auto problem = CheckSource(mount.source())) return problem;
      if (const std::string why = WhyNoSource(mount.source(), place_.hidden); !why.empty())
        return Refused(StrCat("the mount ", mount.source(), ": ", why),
                       "mount what the job needs of it");
    }
    return CheckWhereMountsLead();
  }

  LaunchProblem CoversOwn(const v1::Mount& mount, const std::string& own) const {
    return Refused(
        StrCat("the mount ", mount.source(), " meets ", own, ", which is the worker's own"),
        "mount a directory beside it");
  }

  std::optional<LaunchProblem> CheckTarget(const v1::Mount& mount,
                                           const std::string& target) const {
    if (target == "/") return Refused("a mount at / would hide all its files", "");
    for (const std::string_view system : kSystemDirs) {
      if (IsWithin(target, system))
        return Refused(StrCat("a mount at ", target, " would hide what the system has there"),
                       "mount it elsewhere");
    }
    for (const std::string& hidden : place_.hidden) {
      if (IsWithin(target, hidden) || IsWithin(hidden, target)) return CoversOwn(mount, hidden);
    }
    return std::nullopt;
  }

  // Checks the targets again where the image's links lead. Nothing that Muster itself mounts may lie in
  // one of them: the runtime would create its mount point in the node's directory.
  std::optional<LaunchProblem> CheckWhereMountsLead() {
    absl::StatusOr<MountTargets> resolved = ResolveMounts(root_.get(), spec_.container());
    if (!resolved.ok()) return Refused(common::MessageOf(resolved.status()), "mount it elsewhere");
    mounts_ = *std::move(resolved);
    const std::map<std::string, std::string> own = WhereOwnLead();
    for (size_t i = 0; i < mounts_.paths.size(); ++i) {
      const v1::Mount& mount = spec_.container().mounts(static_cast<int>(i));
      if (auto problem = CheckTarget(mount, mounts_.paths[i])) return problem;
      for (const auto& [path, led] : own) {
        if (IsWithin(led, mounts_.paths[i]) || IsWithin(mounts_.paths[i], led))
          return CoversOwn(mount, path);
      }
    }
    return std::nullopt;
  }

  // Where each path that Muster itself mounts or covers leads in the image with the job's mounts.
  std::map<std::string, std::string> WhereOwnLead() const {
    std::map<std::string, std::string> led;
    if (mounts_.paths.empty()) return led;
    const std::set<std::string> points(mounts_.paths.begin(), mounts_.paths.end());
    for (const auto* own : {&place_.hidden, &place_.own, &place_.fixed}) {
      for (const std::string& path : *own)
        led[path] = PathWithoutLinks(root_.get(), path, points).value_or("/");
    }
    return led;
  }

  // Where the disk cannot hold the layer, it is in memory and lost when the ranks end.
  std::optional<LaunchProblem> CheckOutputs() const {
    const bool is_in_layer = !spec_.has_code() && !IsMounted(WorkdirOf(spec_.workdir()));
    struct statfs disk {};
    if (spec_.outputs().empty() || !is_in_layer || statfs(image_.root.c_str(), &disk) != 0)
      return std::nullopt;
    const bool is_kept = std::none_of(std::begin(kNoLayers), std::end(kNoLayers),
                                      [&](auto type) { return disk.f_type == type; });
    if (is_kept) return std::nullopt;
    return Refused(
        "what ranks write outside of mounts is in memory there, as that worker's "
        "--state-dir lies on a file system that cannot hold an overlay, so the job's outputs "
        "would be lost",
        "name outputs in a mount, or give the worker a --state-dir on a local disk");
  }

  std::string WorkdirOf(const std::string& asked) const {
    const std::string& path = asked.empty() ? image_.config.workdir : asked;
    return IsPlainPath(path) ? path : "/";
  }

  // The shim checks again, by the same rules, when it mounts it.
  std::optional<LaunchProblem> CheckSource(const std::string& source) const {
    const ActAs acting(account_);
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    const common::UniqueFd fd(
        static_cast<int>(syscall(SYS_openat2, AT_FDCWD, source.c_str(), &how, sizeof how)));
    if (!fd.valid() && errno == ELOOP)
      return Refused(StrCat("the mount ", source, " leads through a symbolic link"),
                     StrCat("name what it leads to: realpath ", source));
    if (!fd.valid())
      return Refused(StrCat("the mount ", source, ": ", std::strerror(errno)),
                     "make it on that node, readable for the ranks' account");
    struct stat info {};
    if (fstat(fd.get(), &info) == 0 && (S_ISDIR(info.st_mode) || S_ISREG(info.st_mode)))
      return std::nullopt;
    return Refused(StrCat("the mount ", source, " is neither a directory nor a regular file"),
                   "mount the directory that holds it, or ask for devices with the job's shape");
  }

  void Adapt(common::RankLaunch* rank) const {
    rank->env = EnvironmentIn(image_, spec_, account_, rank->env);
    rank->env.insert(rank->env.end(), devices_.env.begin(), devices_.env.end());
    RenumberDevices(part_, &rank->env);
    rank->workdir = WorkdirOf(rank->workdir);
    for (std::string& entry : rank->env) {
      if (entry.starts_with("PWD=")) entry = StrCat("PWD=", rank->workdir);
    }
    EnterPlace(prepared_, rank);
  }

  std::optional<LaunchProblem> CheckRank(const common::RankLaunch& rank) const {
    if (!IsMounted(rank.workdir) && !IsDirectoryIn(root_.get(), rank.workdir)) {
      return Refused(StrCat("it has no directory ", rank.workdir, ", which is the job's workdir"),
                     "name one of the image, mount it, or leave workdir out");
    }
    if (rank.argv.empty() || rank.argv[0].empty())
      return Refused("the job has an empty command", "give one after --");
    const Variables env = Parse(rank.env);
    const auto path = env.find("PATH");
    const std::string search = path == env.end() ? "" : path->second;
    const std::string& program = rank.argv[0];
    // Does not look into mounts: the runtime does, and its reason reaches the rank's stderr.
    const bool is_path = program.find('/') != std::string::npos;
    const std::string full =
        program.starts_with('/') ? program : StrCat(rank.workdir, "/", program);
    if (is_path && IsMounted(full)) return std::nullopt;
    if (!FindProgramIn(root_.get(), search, rank.workdir, program).empty()) return std::nullopt;
    for (size_t from = 0; !is_path && from <= search.size();) {
      const size_t to = std::min(search.find(':', from), search.size());
      if (IsMounted(search.substr(from, to - from))) return std::nullopt;
      from = to + 1;
    }
    return Problem(ENOENT,
                   StrCat("node ", place_.node, ": command '", program, "' was not found ",
                          is_path ? "in" : StrCat("in PATH (", search, ") of"), " the image ",
                          image_.name, "; fix: correct the command, or install it in the image"));
  }

  absl::Status WriteOne(const common::RankLaunch& rank) const {
    Bundle bundle;
    bundle.root = place_.directory + "/root";
    bundle.shm = place_.directory + "/shm";
    bundle.processes = StrCat(place_.directory, "/", common::kProcessSpaceName);
    bundle.argv = rank.argv;
    bundle.env = rank.env;
    bundle.workdir = rank.workdir;
    if (account_.ids.is_other) {
      bundle.uid = account_.ids.uid;
      bundle.gid = account_.ids.gid;
      bundle.groups = account_.ids.groups;
    }
    Targets targets(root_.get());
    for (const std::string& path : place_.hidden) bundle.covers.push_back(targets.Add(path));
    for (const char* path : kNodeFiles) {
      if (common::Exists(path))
        bundle.mounts.push_back({.source = path, .target = targets.Add(path), .read_only = true});
    }
    for (BundleMount mount : devices_.mounts) {
      mount.target = targets.Add(mount.target);
      bundle.mounts.push_back(std::move(mount));
    }
    bundle.hooks = devices_.hooks;
    for (size_t i = 0; i < mounts_.places.size(); ++i) {
      // In another, where the shim puts it.
      if (mounts_.places[i].find('/') != std::string::npos) continue;
      const v1::Mount& mount = spec_.container().mounts(static_cast<int>(i));
      bundle.mounts.push_back({.source = StrCat(place_.directory, "/mounts/", i),
                               .target = mounts_.paths[i],
                               .read_only = mount.read_only(),
                               .is_as_mounted = HoldsAnother(mounts_.places, i)});
    }
    for (const std::string& path : place_.own)
      bundle.mounts.push_back({.source = path, .target = targets.Add(path)});
    for (const std::string& path : place_.fixed)
      bundle.mounts.push_back({.source = path, .target = targets.Add(path), .read_only = true});
    const std::string directory = StrCat(place_.directory, "/", rank.rank);
    RETURN_IF_ERROR(common::MakeDirectories(directory));
    ASSIGN_OR_RETURN(
        const common::UniqueFd file,
        common::OpenRegular(directory + "/config.json", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW));
    return common::WriteAll(file.get(), BundleJson(bundle));
  }

  // What the bundles bind, and the programs that the runtime starts. A driver's hook may read any file
  // that was installed with it.
  absl::Status WriteNeeded() const {
    std::string needed;
    const auto add = [&needed](char how, const std::string& path) {
      needed += StrCat(std::string(1, how), path, std::string(1, '\0'));
    };
    const auto read = [&add](const std::string& path) {
      std::error_code error;
      const std::string real = std::filesystem::canonical(path, error).string();
      add(common::kNeededToRead, path);
      if (!error && real != path) add(common::kNeededToRead, real);
    };
    for (const char* path : kNodeFiles) read(path);
    for (const BundleMount& mount : devices_.mounts) {
      if (mount.is_device || !mount.read_only) add(common::kNeededToWrite, mount.source);
      read(mount.source);
    }
    for (const BundleHook& hook : devices_.hooks) {
      read(hook.path);
      if (hook.path == place_.shim_binary) continue;
      for (const char* path : kHookPlaces) read(path);
    }
    for (const std::string& path : place_.own) add(common::kNeededToWrite, path);
    for (const std::string& path : place_.fixed) add(common::kNeededToRead, path);
    ASSIGN_OR_RETURN(const common::UniqueFd file,
                     common::OpenRegular(StrCat(place_.directory, "/", common::kNeededName),
                                         O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW));
    return common::WriteAll(file.get(), needed);
  }

  const ContainerPlace& place_;
  const ReadyImage& image_;
  const v1::JobSpec& spec_;
  const v1::NodePart& part_;
  const RankAccount& account_;
  const PreparedPlace& prepared_;
  common::UniqueFd root_;
  MountTargets mounts_;
  CdiEdits devices_;
};

std::vector<std::string> HiddenDirs(const Paths& paths) {
  std::vector<std::string> hidden = {paths.StateDir()};
  if (!IsWithin(paths.RuntimeDir(), paths.StateDir())) hidden.push_back(paths.RuntimeDir());
  // A mount's source contains no link.
  for (const std::string& path : {paths.StateDir(), paths.RuntimeDir()}) {
    std::error_code error;
    const std::string real = std::filesystem::canonical(path, error).string();
    if (!error && std::find(hidden.begin(), hidden.end(), real) == hidden.end())
      hidden.push_back(real);
  }
  return hidden;
}

}  // namespace

ContainerPlace PlaceOfAttempt(const std::string& node, const Paths& paths, const AttemptKey& key,
                              const v1::JobSpec& spec, const PreparedPlace& prepared) {
  ContainerPlace place{.node = node,
                       .directory = paths.Containers(key),
                       .own = DirsOfAttempt(paths, key, spec.has_code()),
                       .fixed = {},
                       .hidden = HiddenDirs(paths)};
  if (!spec.secrets().empty()) place.fixed.push_back(SecretsDir(paths, key));
  if (!prepared.setup_dir.empty()) {
    place.fixed.push_back(prepared.setup_dir);
    place.fixed.push_back(prepared.setup_tree);
  }
  return place;
}

ContainerPlace PlaceOfSetup(const std::string& node, const Paths& paths,
                            const std::string& directory, const PreparedPlace& prepared) {
  return {.node = node,
          .directory = directory,
          .own = {prepared.setup_dir, prepared.setup_tree},
          .fixed = {},
          .hidden = HiddenDirs(paths)};
}

std::vector<std::string> EnvironmentIn(const ReadyImage& image, const v1::JobSpec& spec,
                                       const RankAccount& account,
                                       const std::vector<std::string>& env) {
  Variables variables = Parse(image.config.env);
  // From an image, MUSTER_… variables would announce what the job does not have.
  std::erase_if(variables, [](const auto& entry) { return entry.first.starts_with("MUSTER_"); });
  for (const auto& [name, value] : Parse(env)) {
    const bool is_default = kNodeVariables.contains(name) && !spec.env().contains(name);
    if (is_default && (name == "HOME" || variables.contains(name))) continue;
    variables[name] = value;
  }
  const bool is_root = !account.ids.is_other || account.ids.uid == 0;
  variables.try_emplace("HOME", is_root ? "/root" : kNoHome);
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(StrCat(name, "=", value));
  return entries;
}

PathOnNode FindOnNode(const Paths& paths, const AttemptKey& key, const v1::JobSpec& spec,
                      const std::string& path) {
  if (spec.container().image().empty() || IsWithin(path, paths.StateDir())) return {path, ""};
  const v1::Mount* nearest = nullptr;
  std::string at;
  for (const v1::Mount& mount : spec.container().mounts()) {
    const std::string& target = TargetOf(mount);
    if (!IsWithin(path, target) || target.size() < at.size()) continue;
    nearest = &mount;
    at = target;
  }
  if (nearest != nullptr)
    return {nearest->source(), path.size() > at.size() ? path.substr(at.size() + 1) : ""};
  return {paths.Containers(key) + "/upper", IsPlainPath(path) ? path.substr(1) : "", true};
}

PathOnNode FindWorkdir(const Paths& paths, const AttemptKey& key, const v1::JobSpec& spec) {
  const std::string& image = spec.container().image();
  if (image.empty() || !spec.workdir().empty()) return FindOnNode(paths, key, spec, spec.workdir());
  const auto ready = ImageOf(paths, key, image);
  return FindOnNode(paths, key, spec, ready.ok() ? ready->config.workdir : "/");
}

std::optional<LaunchProblem> CheckContainers(const ContainerPlace& place, const ReadyImage& image,
                                             const v1::JobSpec& spec, const v1::NodePart& part,
                                             const RankAccount& account,
                                             const PreparedPlace& prepared,
                                             std::vector<common::RankLaunch>* ranks) {
  const ActAsWorker own_rights;
  return Wrapping(place, image, spec, part, account, prepared).Check(ranks);
}

std::optional<LaunchProblem> WrapRanks(const ContainerPlace& place, const ReadyImage& image,
                                       const v1::JobSpec& spec, const v1::NodePart& part,
                                       const RankAccount& account, const PreparedPlace& prepared,
                                       std::vector<common::RankLaunch>* ranks) {
  const ActAsWorker own_rights;
  Wrapping wrapping(place, image, spec, part, account, prepared);
  if (auto problem = wrapping.Check(ranks)) return problem;
  return wrapping.Write(*ranks);
}

common::LaunchContainer LaunchOfContainers(const ContainerPlace& place, const ContainerTools& tools,
                                           const ReadyImage& image, const v1::ContainerSpec& spec) {
  common::LaunchContainer container{.runtime = tools.runc,
                                    .image_root = image.root,
                                    .directory = place.directory,
                                    .shm_bytes = spec.shm_bytes()};
  for (const v1::Mount& mount : spec.mounts()) container.sources.push_back(mount.source());
  // Checked when the ranks were wrapped. Without places the shim mounts nothing.
  const common::UniqueFd root(open(image.root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  absl::StatusOr<MountTargets> mounts = ResolveMounts(root.get(), spec);
  if (mounts.ok()) container.places = std::move(mounts->places);
  return container;
}

}  // namespace muster::worker
