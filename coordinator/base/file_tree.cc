#include "coordinator/base/file_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/text/relative_path.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

using common::StrCat;
using common::UniqueFd;

constexpr int kDepthMax = 8;
constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

TreeFile FileOf(const std::string& path, const struct stat& info) {
  return {path, static_cast<uint64_t>(info.st_size),
          info.st_mtim.tv_sec * kNsPerSecond + info.st_mtim.tv_nsec};
}

// Sorted, so that two walks over the same files are the same.
absl::StatusOr<std::vector<std::string>> NamesIn(UniqueFd directory, const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(directory.get()), closedir);
  if (stream == nullptr) return common::ErrnoStatus(StrCat("cannot list ", path));
  directory.Release();
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(stream.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  if (errno != 0) return common::ErrnoStatus(StrCat("cannot list ", path));
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status Unreadable(const std::string& path, const TreeVisitor& visitor,
                        const absl::Status& why) {
  // If the walk itself lacks descriptors, that proves nothing about the directory.
  const bool is_its_own = visitor.unreadable != nullptr && !absl::IsUnavailable(why);
  return is_its_own ? visitor.unreadable(path, why) : why;
}

// `name` in the open directory `at`; `path` is what it is called below the root.
absl::Status Visit(int at, const std::string& name, const std::string& path,
                   const TreeVisitor& visitor, int depth) {
  struct stat info {};
  if (fstatat(at, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return Unreadable(path, visitor, common::ErrnoStatus(StrCat("cannot read ", path)));
  }
  if (S_ISREG(info.st_mode)) return visitor.file(FileOf(path, info));
  if (!S_ISDIR(info.st_mode) || depth == 0) return visitor.odd(path);
  if (visitor.directory != nullptr) visitor.directory(path);
  UniqueFd directory(openat(at, name.c_str(), kDirectoryFlags));
  if (!directory.valid()) {
    if (errno == ENOENT) return absl::OkStatus();
    return Unreadable(path, visitor, common::ErrnoStatus(StrCat("cannot open ", path)));
  }
  const int open_directory = directory.get();
  UniqueFd listed(dup(open_directory));
  if (!listed.valid()) return common::ErrnoStatus(StrCat("cannot open ", path));
  const absl::StatusOr<std::vector<std::string>> names = NamesIn(std::move(listed), path);
  if (!names.ok()) return Unreadable(path, visitor, names.status());
  for (const std::string& each : *names) {
    RETURN_IF_ERROR(Visit(open_directory, each, StrCat(path, "/", each), visitor, depth - 1));
  }
  return absl::OkStatus();
}

absl::Status NotFollowed(const std::string& path) {
  return absl::InvalidArgumentError(
      StrCat(path, " is a symbolic link or not a directory, and is not followed"));
}

}  // namespace

absl::Status WalkFiles(const std::string& root, const std::string& path,
                       const TreeVisitor& visitor) {
  const UniqueFd directory(open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return common::ErrnoStatus(StrCat("cannot open ", root));
  return Visit(directory.get(), path, path, visitor, kDepthMax);
}

uint64_t BytesBelow(const std::string& root, const std::string& path) {
  uint64_t bytes = 0;
  const auto add = [&bytes](const TreeFile& file) {
    bytes += file.size;
    return absl::OkStatus();
  };
  const auto pass = [](const std::string&) { return absl::OkStatus(); };
  WalkFiles(root, path, {.file = add, .odd = pass}).IgnoreError();
  return bytes;
}

absl::StatusOr<UniqueFd> OpenBelow(const std::string& root, const std::string& path, int flags,
                                   bool make_directories) {
  if (!common::StaysInside(path)) {
    return absl::InvalidArgumentError(StrCat("\"", path, "\" is not a path below ", root));
  }
  UniqueFd at(open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!at.valid()) return common::ErrnoStatus(StrCat("cannot open ", root));
  std::vector<std::string> names = absl::StrSplit(path, '/');
  const std::string last = names.back();
  names.pop_back();
  for (const std::string& name : names) {
    if (make_directories && mkdirat(at.get(), name.c_str(), 0700) != 0 && errno != EEXIST) {
      return common::ErrnoStatus(StrCat("cannot create ", root, "/", path));
    }
    UniqueFd next(openat(at.get(), name.c_str(), kDirectoryFlags));
    if (!next.valid() && (errno == ELOOP || errno == ENOTDIR))
      return NotFollowed(StrCat(root, "/", path));
    if (!next.valid()) return common::ErrnoStatus(StrCat("cannot open ", root, "/", path));
    at = std::move(next);
  }
  UniqueFd file(
      openat(at.get(), last.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600));
  if (!file.valid() && errno == ELOOP) return NotFollowed(StrCat(root, "/", path));
  if (!file.valid()) return common::ErrnoStatus(StrCat("cannot open ", root, "/", path));
  struct stat info {};
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(StrCat(root, "/", path, " is not a regular file"));
  }
  return file;
}

}  // namespace muster::coordinator
