#include "worker/containers/find_in_image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

using common::StrCat;

constexpr int kLinksMax = 40;  // as the kernel follows

bool IsProgram(int root, const std::string& path) {
  const auto file = common::OpenInRoot(root, path);
  struct stat info {};
  return file.ok() && fstat(file->get(), &info) == 0 && S_ISREG(info.st_mode) &&
         (info.st_mode & 0111) != 0;
}

// In reverse order.
std::vector<std::string> Components(const std::string& path) {
  std::vector<std::string> names = absl::StrSplit(
      path, '/', [](absl::string_view name) { return !name.empty() && name != "."; });
  std::reverse(names.begin(), names.end());
  return names;
}

// The target of the link `name` in `directory`, whose path has no links; nullopt: it is not a link.
std::optional<std::string> LinkIn(int root, const std::string& directory, const std::string& name) {
  const auto above = common::OpenInRoot(root, directory.empty() ? "/" : directory);
  char target[PATH_MAX];
  const ssize_t length =
      above.ok() ? readlinkat(above->get(), name.c_str(), target, sizeof target) : -1;
  if (length < 0) return std::nullopt;
  return std::string(target, static_cast<size_t>(length));
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

std::optional<std::string> PathWithoutLinks(int root, const std::string& path,
                                            const std::set<std::string>& mounted) {
  std::string found;
  std::vector<std::string> left = Components(path);
  bool is_elsewhere = false;
  for (int links = 0; !left.empty();) {
    is_elsewhere = is_elsewhere || mounted.contains(found);
    const std::string name = left.back();
    left.pop_back();
    if (is_elsewhere) {
      if (name == "..") return std::nullopt;
      found += StrCat("/", name);
      continue;
    }
    if (name == "..") {
      found.erase(std::min(found.rfind('/'), found.size()));
      continue;
    }
    const std::optional<std::string> target = LinkIn(root, found, name);
    if (!target.has_value()) {
      found += StrCat("/", name);
      continue;
    }
    if (++links > kLinksMax) return std::nullopt;
    if (target->starts_with('/')) found.clear();
    const std::vector<std::string> more = Components(*target);
    left.insert(left.end(), more.begin(), more.end());
  }
  return found.empty() ? "/" : found;
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
