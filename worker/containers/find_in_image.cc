#include "worker/containers/find_in_image.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_split.h"
#include "common/strings.h"

namespace muster::worker {
namespace {

bool IsProgram(int root, const std::string& path) {
  const auto file = common::OpenInRoot(root, path);
  struct stat info {};
  return file.ok() && fstat(file->get(), &info) == 0 && S_ISREG(info.st_mode) &&
         (info.st_mode & 0111) != 0;
}

std::string From(const std::string& workdir, const std::string& path) {
  return path.starts_with('/') ? path : common::StrCat(workdir, "/", path);
}

}  // namespace

bool IsDirectoryIn(int root, const std::string& path) {
  const auto file = common::OpenInRoot(root, path);
  struct stat info {};
  return file.ok() && fstat(file->get(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::string SystemPathThatLeadsAway(int root) {
  for (const char* name : {"dev", "proc", "sys"}) {
    struct stat info {};
    const bool is_there = fstatat(root, name, &info, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
    if (is_there && !S_ISDIR(info.st_mode)) return common::StrCat("/", name);
  }
  return {};
}

std::string FindProgramIn(int root, std::string_view search_path, const std::string& workdir,
                          const std::string& name) {
  if (name.find('/') != std::string::npos) {
    const std::string path = From(workdir, name);
    return IsProgram(root, path) ? path : "";
  }
  for (const std::string& directory :
       std::vector<std::string>(absl::StrSplit(common::ToAbsl(search_path), ':'))) {
    const std::string path =
        common::StrCat(From(workdir, directory.empty() ? "." : directory), "/", name);
    if (IsProgram(root, path)) return path;
  }
  return {};
}

}  // namespace muster::worker
