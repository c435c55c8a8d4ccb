#include "coordinator/object_files/key_walk.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "coordinator/object_files/object_files.h"
#include "coordinator/stores/objects.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

bool IsDirectory(const std::string& path, unsigned char type) {
  if (type != DT_UNKNOWN) return type == DT_DIR;
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// Keys, and what keys begin with, of directories, with a slash at its end: so they sort as keys do.
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& root,
                                                 const std::string& below) {
  const std::string path = StrCat(root, "/", below);
  const std::unique_ptr<DIR, CloseDirectory> directory(opendir(path.c_str()));
  if (directory == nullptr) {
    if (errno == ENOENT && !below.empty()) return std::vector<std::string>();
    return SharedErrno(StrCat("cannot list ", path));
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(directory.get())) {
    const std::string key = StrCat(below, entry->d_name);
    if (!CheckObjectKey(key).ok()) continue;
    names.push_back(IsDirectory(StrCat(root, "/", key), entry->d_type) ? key + "/" : key);
    errno = 0;
  }
  if (errno != 0) return SharedErrno(StrCat("cannot list ", path));
  std::sort(names.begin(), names.end());
  return names;
}

// Whether the keys that begin with `name` may begin with `prefix`.
bool MayHave(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) || (name.ends_with('/') && prefix.starts_with(name));
}

absl::StatusOr<bool> WalkBelow(const KeyWalk& walk, const std::string& below,
                               const std::function<bool(const std::string& key)>& take) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(walk.root, below));
  for (const std::string& name : names) {
    if (!MayHave(name, walk.prefix)) continue;
    // Of a directory all keys come before `after`, unless that begins with its name.
    if (name <= walk.after && !(name.ends_with('/') && walk.after.starts_with(name))) continue;
    if (!name.ends_with('/')) {
      if (!take(name)) return false;
      continue;
    }
    ASSIGN_OR_RETURN(const bool goes_further, WalkBelow(walk, name, take));
    if (!goes_further) return false;
  }
  return true;
}

}  // namespace

absl::Status WalkKeys(const KeyWalk& walk,
                      const std::function<bool(const std::string& key)>& take) {
  return WalkBelow(walk, "", take).status();
}

}  // namespace muster::coordinator
