#include "worker/checkpoints/outputs.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/outputs.h"
#include "common/text/relative_path.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "worker/checkpoints/checkpoint_directory.h"
#include "worker/containers/rank_containers.h"

namespace muster::worker {
namespace {

constexpr size_t kOutputEntriesMax = 2 * kCheckpointFilesMax;  // directories included
constexpr int kEnter = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

common::UniqueFd OpenUnder(int root, const std::string& path, uint64_t flags, uint64_t resolve) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve;
  return common::UniqueFd(
      static_cast<int>(syscall(SYS_openat2, root, path.c_str(), &how, sizeof how)));
}

std::string_view KindOf(mode_t mode) {
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISFIFO(mode)) return "a FIFO";
  return "a device";
}

std::string WhyNot(int error) {
  if (error == ENOENT) return "not there";
  if (error == ELOOP || error == EXDEV) return "behind a symbolic link";
  return std::strerror(error);
}

absl::Status TooMuch(const std::string& what, const std::string& why = "") {
  return absl::InvalidArgumentError(
      common::StrCat("they have more than ", what, " on this node", why,
                     ", so none of them were taken; fix: name fewer, or pack them into an "
                     "archive"));
}

std::string RealPath(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), free);
  return real == nullptr ? path : std::string(real.get());
}

// A job may have moved its working directory away and replaced it by a link to another attempt's.
bool IsOfOthers(const common::UniqueFd& directory, const Paths& paths, const AttemptKey& key) {
  const std::string real = RealPath(common::StrCat("/proc/self/fd/", directory.get()));
  return common::IsWithin(real, RealPath(paths.StateDir())) &&
         !common::IsWithin(real, RealPath(paths.AttemptDir(key)));
}

// Links below its base are followed as long as they stay there.
PathOnNode PlaceOfWorkdir(const Paths& paths, const AttemptKey& key, const v1::JobSpec& spec) {
  const std::string tree = paths.AttemptCode(key);
  if (spec.has_code() && spec.workdir().starts_with(tree + "/"))
    return {tree, spec.workdir().substr(tree.size() + 1)};
  return spec.has_code() ? PathOnNode{tree, ""} : FindWorkdir(paths, key, spec);
}

// Invalid, with errno, if it cannot be entered.
common::UniqueFd Enter(const PathOnNode& place, const RankAccount& account) {
  common::UniqueFd base;
  // The layer of ranks in an image belongs to the worker; its contents to the job.
  if (place.is_layer) base = common::UniqueFd(open(place.base.c_str(), kEnter));
  const ActAs acting(account);
  if (!place.is_layer)
    base = common::UniqueFd(open(place.base.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!base.valid() || place.below.empty()) return base;
  return OpenUnder(base.get(), place.below, O_RDONLY | O_DIRECTORY, 0);
}

}  // namespace

void LeftOut::Add(std::string_view path, std::string_view why) {
  if (++count_ > kNamedMax) return;
  common::StrAppend(&named_, count_ == 1 ? "" : ", ", common::PrintableStart(path, kNameBytesMax),
                    " (", why, ")");
}

std::string LeftOut::Text() const {
  if (count_ == 0) return "";
  const std::string more =
      count_ > kNamedMax ? common::StrCat(" and ", count_ - kNamedMax, " more") : std::string();
  return common::StrCat("not taken: ", named_, more);
}

struct OutputTree::Search {
  std::set<std::string> files;
  uint64_t bytes = 0;
  uint64_t quota_bytes = 0;
  size_t entries = 0;
  LeftOut* left_out = nullptr;
};

absl::StatusOr<OutputTree> OutputTree::Open(const Paths& paths, const AttemptKey& key,
                                            const v1::JobSpec& spec, RankAccount account) {
  const PathOnNode place = PlaceOfWorkdir(paths, key, spec);
  const std::string path = place.Text();
  common::UniqueFd root = Enter(place, account);
  if (!root.valid())
    return common::ErrnoStatus(common::StrCat("cannot enter the working directory ", path));
  struct stat state {};
  if (stat(paths.StateDir().c_str(), &state) != 0)
    return common::ErrnoStatus(common::StrCat("cannot inspect ", paths.StateDir()));
  if (IsOfOthers(root, paths, key)) {
    return absl::PermissionDeniedError(
        common::StrCat("the working directory ", path, " leads into the worker's own files"));
  }
  return OutputTree(std::move(root), std::move(account), state.st_dev, state.st_ino);
}

absl::StatusOr<std::vector<std::string>> OutputTree::Find(
    const google::protobuf::RepeatedPtrField<std::string>& outputs, uint64_t quota_bytes,
    LeftOut* left_out) const {
  const ActAs acting(account_);
  Search search;
  search.quota_bytes = quota_bytes;
  search.left_out = left_out;
  for (const std::string& output : outputs) {
    const auto path = common::CleanOutput(output);
    if (!path.has_value()) {
      left_out->Add(output, "outside the working directory");
      continue;
    }
    const size_t slash = path->rfind('/');
    const std::string parent = slash == std::string::npos ? "." : path->substr(0, slash);
    const common::UniqueFd directory =
        OpenUnder(root_.get(), parent, O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
    if (!directory.valid()) {
      left_out->Add(*path, WhyNot(errno));
      continue;
    }
    const std::string name = slash == std::string::npos ? *path : path->substr(slash + 1);
    RETURN_IF_ERROR(Take(directory.get(), name.empty() ? "." : name, *path, 0, &search));
  }
  return std::vector<std::string>(search.files.begin(), search.files.end());
}

absl::Status OutputTree::Take(int parent, const std::string& name, const std::string& path,
                              int depth, Search* search) const {
  struct stat info {};
  if (fstatat(parent, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    search->left_out->Add(path, WhyNot(errno));
    return absl::OkStatus();
  }
  if (S_ISDIR(info.st_mode)) {
    if (depth >= kOutputsDepthMax)
      return TooMuch(common::StrCat(kOutputsDepthMax, " directories below one another"));
    common::UniqueFd directory(openat(parent, name.c_str(), kEnter));
    if (directory.valid()) return TakeDirectory(std::move(directory), path, depth, search);
    search->left_out->Add(path, WhyNot(errno));
    return absl::OkStatus();
  }
  if (!S_ISREG(info.st_mode)) {
    search->left_out->Add(path, KindOf(info.st_mode));
    return absl::OkStatus();
  }
  if (const absl::Status named = CheckRelativePath(path); !named.ok()) {
    search->left_out->Add(path, "its name is too long, or not printable UTF-8");
    return absl::OkStatus();
  }
  if (!search->files.insert(path).second) return absl::OkStatus();  // named twice
  if (search->files.size() > kCheckpointFilesMax)
    return TooMuch(common::StrCat(kCheckpointFilesMax, " files"));
  search->bytes += static_cast<uint64_t>(info.st_size);
  const uint64_t bytes_max = common::OutputsBytesMax(search->quota_bytes);
  if (search->bytes <= bytes_max) return absl::OkStatus();
  return TooMuch(common::HumanBytes(bytes_max), common::WhyNoMoreOutputs(search->quota_bytes));
}

absl::Status OutputTree::TakeDirectory(common::UniqueFd directory, const std::string& path,
                                       int depth, Search* search) const {
  struct stat info {};
  if (fstat(directory.get(), &info) != 0 ||
      (info.st_dev == state_device_ && info.st_ino == state_inode_)) {
    search->left_out->Add(path, "the worker's own directory");
    return absl::OkStatus();
  }
  const int own = directory.get();
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(fdopendir(own), closedir);
  if (listing == nullptr) {
    search->left_out->Add(path, WhyNot(errno));
    return absl::OkStatus();
  }
  directory.Release();  // closedir closes it
  while (const dirent* entry = readdir(listing.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (++search->entries > kOutputEntriesMax)
      return TooMuch(common::StrCat(kOutputEntriesMax, " files and directories"));
    RETURN_IF_ERROR(
        Take(own, name, path.empty() ? name : common::StrCat(path, "/", name), depth + 1, search));
  }
  return absl::OkStatus();
}

absl::StatusOr<common::UniqueFd> OutputTree::OpenFile(const std::string& path) const {
  const ActAs acting(account_);
  common::UniqueFd file =
      OpenUnder(root_.get(), path, O_RDONLY | O_NONBLOCK | O_NOCTTY, RESOLVE_NO_SYMLINKS);
  if (!file.valid()) return absl::FailedPreconditionError(WhyNot(errno));
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return absl::FailedPreconditionError(WhyNot(errno));
  if (!S_ISREG(info.st_mode)) return absl::FailedPreconditionError("not a regular file");
  return file;
}

}  // namespace muster::worker
