#include "tree/directories.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "tree/names.h"

namespace muster::tree {

int Directories::Enter(std::string_view directory) {
  const auto encloses = [&](size_t bytes) {
    return directory.size() >= bytes && directory.substr(0, bytes) == path_.substr(0, bytes) &&
           (directory.size() == bytes || directory[bytes] == '/');
  };
  while (!levels_.empty() && !encloses(levels_.back().path_bytes)) levels_.pop_back();
  path_.resize(levels_.empty() ? 0 : levels_.back().path_bytes);
  while (path_.size() < directory.size()) {
    const size_t begin = path_.empty() ? 0 : path_.size() + 1;
    const size_t end = std::min(directory.find('/', begin), directory.size());
    const std::string name(directory.substr(begin, end - begin));
    const int above = levels_.empty() ? root_ : levels_.back().fd.get();
    common::UniqueFd fd(
        openat(above, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd.valid()) return -1;
    path_ = directory.substr(0, end);
    levels_.push_back({end, std::move(fd)});
  }
  return levels_.empty() ? root_ : levels_.back().fd.get();
}

common::UniqueFd Directories::Open(std::string_view path, int flags, int mode) {
  const int directory = Enter(ParentOf(path));
  if (directory < 0) return {};
  const std::string name(NameOf(path));
  return common::UniqueFd(openat(directory, name.c_str(),
                                 flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode));
}

Stamp StampOf(const struct stat& info) {
  // After 2262 it wraps, but stamps are only compared for equality.
  const auto nanoseconds = [](const timespec& time) {
    return static_cast<int64_t>(static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 +
                                static_cast<uint64_t>(time.tv_nsec));
  };
  return {static_cast<uint64_t>(info.st_size), nanoseconds(info.st_mtim), nanoseconds(info.st_ctim),
          info.st_ino};
}

}  // namespace muster::tree
