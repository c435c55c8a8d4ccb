#include "tree/walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "absl/strings/ascii.h"
#include "common/base/status.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "tree/ignore.h"

namespace muster::tree {
namespace {

using common::StrCat;
using common::UniqueFd;

std::string Reason(std::string_view what) { return common::MessageOf(common::ErrnoStatus(what)); }

// "" if there is no such file, or it is a link, which git does not follow here either.
absl::StatusOr<std::string> ReadIgnoreFile(int directory, const char* name) {
  const UniqueFd fd(openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!fd.valid()) {
    if (errno == ENOENT || errno == ELOOP || errno == ENXIO) return std::string();
    return common::ErrnoStatus("cannot be read");
  }
  if (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::string();
  ASSIGN_OR_RETURN(std::string content,
                   common::ReadAt(fd.get(), 0, kIgnoreFileBytesMax + 1, "the file"));
  if (content.size() > kIgnoreFileBytesMax) return absl::OutOfRangeError("has more than 1 MiB");
  return content;
}

std::string_view FileProblem(const struct stat& info) {
  switch (info.st_mode & S_IFMT) {
    case S_IFCHR:
    case S_IFBLK:
      return "is a device";
    case S_IFSOCK:
      return "is a socket";
    case S_IFIFO:
      return "is a FIFO";
    default:
      break;
  }
  if (S_ISREG(info.st_mode) && (info.st_mode & S_ISUID) != 0) return "is a setuid file";
  if (S_ISREG(info.st_mode) && (info.st_mode & S_ISGID) != 0) return "is a setgid file";
  return {};
}

class Walker {
 public:
  explicit Walker(Walk* walk) : walk_(*walk) {}

  // Takes the open directory. `path` is "" for the root. `kept`: it belongs to the tree.
  absl::Status Visit(UniqueFd directory, const std::string& path, bool* kept) {
    std::vector<std::string> names;
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(directory.get()), closedir);
    const int fd = stream == nullptr ? -1 : directory.Release();
    if (stream == nullptr || !List(stream.get(), &names)) {
      walk_.refused.Add(path.empty() ? "." : path, Reason("cannot be listed"));
      return absl::OkStatus();
    }
    *kept = names.empty();
    EnterIgnoreFiles(fd, path, names);
    WarnOfTwins(path, names);
    for (const std::string& name : names) RETURN_IF_ERROR(Look(fd, path, name, kept));
    rules_.Leave();
    return absl::OkStatus();
  }

 private:
  static bool List(DIR* stream, std::vector<std::string>* names) {
    errno = 0;
    while (const dirent* entry = readdir(stream)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names->emplace_back(name);
      if (names->size() > kEntriesMax) break;
      errno = 0;
    }
    const bool listed = errno == 0;
    std::sort(names->begin(), names->end());
    return listed;
  }

  void EnterIgnoreFiles(int directory, const std::string& path,
                        const std::vector<std::string>& names) {
    const auto read = [&](const char* name) -> std::string {
      if (!std::binary_search(names.begin(), names.end(), name)) return {};
      absl::StatusOr<std::string> content = ReadIgnoreFile(directory, name);
      if (content.ok()) return *std::move(content);
      walk_.refused.Add(Below(path, name), common::MessageOf(content.status()));
      return {};
    };
    rules_.Enter(path, read(".gitignore"), read(".musterignore"));
  }

  static std::string Below(const std::string& path, std::string_view name) {
    return path.empty() ? std::string(name) : StrCat(path, "/", name);
  }

  // File systems of other machines may not distinguish these names.
  void WarnOfTwins(const std::string& path, const std::vector<std::string>& names) {
    const auto has_upper_case = [](const std::string& name) {
      return std::any_of(name.begin(), name.end(), absl::ascii_isupper);
    };
    if (std::none_of(names.begin(), names.end(), has_upper_case)) return;
    std::vector<std::pair<std::string, const std::string*>> folded;
    folded.reserve(names.size());
    for (const std::string& name : names) folded.emplace_back(absl::AsciiStrToLower(name), &name);
    std::sort(folded.begin(), folded.end());
    for (size_t i = 1; i < folded.size(); ++i) {
      if (folded[i].first != folded[i - 1].first) continue;
      const std::string one = Below(path, *folded[i - 1].second);
      const std::string other = Below(path, *folded[i].second);
      const auto counts = [&](const std::string& twin) { return !rules_.Ignores(twin, false); };
      if (counts(one) && counts(other)) {
        walk_.warnings.Add(
            one, StrCat("differs from ", common::Printable(NameOf(other)), " only in case"));
      }
    }
  }

  absl::Status Look(int directory, const std::string& above, const std::string& name, bool* kept) {
    if (name == ".git") return absl::OkStatus();
    Found found;
    found.entry.path = Below(above, name);
    const std::string& path = found.entry.path;
    struct stat info {};
    if (fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno != ENOENT) walk_.refused.Add(path, Reason("cannot be looked at"));
      return absl::OkStatus();
    }
    if (rules_.Ignores(path, S_ISDIR(info.st_mode))) {
      ++walk_.ignored;
      return absl::OkStatus();
    }
    std::string_view why = PathProblem(path);
    if (why.empty()) why = FileProblem(info);
    if (!why.empty()) {
      walk_.refused.Add(path, why);
      return absl::OkStatus();
    }
    if (walk_.found.size() >= kEntriesMax) {
      return absl::ResourceExhaustedError(
          "there are more than 1,000,000 files, directories and links in it; fix: list what is not "
          "needed in .musterignore");
    }
    found.stamp = StampOf(info);
    if (S_ISDIR(info.st_mode)) return Descend(directory, name, std::move(found), kept);
    *kept = true;
    if (S_ISLNK(info.st_mode)) return TakeLink(directory, name, std::move(found));
    found.entry.size = found.stamp.size;
    if ((info.st_mode & S_IXUSR) != 0) found.entry.kind = Kind::kExecutable;
    walk_.found.push_back(std::move(found));
    return absl::OkStatus();
  }

  absl::Status Descend(int above, const std::string& name, Found found, bool* kept) {
    const std::string path = found.entry.path;
    found.entry.kind = Kind::kDirectory;
    UniqueFd fd(openat(above, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd.valid()) {
      if (errno != ENOENT) walk_.refused.Add(path, Reason("cannot be opened"));
      return absl::OkStatus();
    }
    const size_t at = walk_.found.size();
    walk_.found.push_back(std::move(found));
    bool keep = false;
    RETURN_IF_ERROR(Visit(std::move(fd), path, &keep));
    // Nothing in it was kept, so nothing comes after its entry.
    if (!keep) walk_.found.resize(at);
    *kept = *kept || keep;
    return absl::OkStatus();
  }

  absl::Status TakeLink(int directory, const std::string& name, Found found) {
    char target[kLinkTargetBytesMax + 1];
    const ssize_t size = readlinkat(directory, name.c_str(), target, sizeof target);
    if (size < 0) {
      walk_.refused.Add(found.entry.path, Reason("cannot be read"));
      return absl::OkStatus();
    }
    found.entry.kind = Kind::kLink;
    found.entry.target.assign(target, static_cast<size_t>(size));
    walk_.found.push_back(std::move(found));
    return absl::OkStatus();
  }

  Walk& walk_;
  IgnoreRules rules_;
};

}  // namespace

absl::Status WalkTree(int root, Walk* walk) {
  UniqueFd directory(openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return common::ErrnoStatus("cannot be opened");
  bool kept = false;
  return Walker(walk).Visit(std::move(directory), "", &kept);
}

}  // namespace muster::tree
