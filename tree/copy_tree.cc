#include "tree/copy_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "tree/copy_file.h"
#include "tree/names.h"

namespace muster::tree {
namespace {

using common::UniqueFd;

struct CloseListing {
  void operator()(DIR* listing) const { closedir(listing); }
};
using OpenListing = std::unique_ptr<DIR, CloseListing>;

class TreeCopier {
 public:
  TreeCopier(const TreeTarget& target, uint64_t entries_max, CopiedTree* done)
      : target_(target), entries_max_(entries_max), done_(*done) {}

  // `path` is the same on both sides, relative to the roots; "" means the roots themselves.
  absl::Status CopyBelow(int from, int to, const std::string& path, size_t depth) {
    if (depth > kDepthMax) return TooMuch("more levels of directories than", kDepthMax);
    const OpenListing listing(OpenDirectory(from, path.empty() ? "." : NameIn(path)));
    if (listing == nullptr) return Failed("open", path);
    errno = 0;
    while (const dirent* entry = readdir(listing.get())) {
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (target_.stopped && target_.stopped()) {
        return absl::CancelledError(common::StrCat("copying into ", target_.path, " was stopped"));
      }
      if (++done_.entries > entries_max_) return TooMuch("more entries than", entries_max_);
      RETURN_IF_ERROR(CopyEntry(dirfd(listing.get()), to, name,
                                path.empty() ? name : common::StrCat(path, "/", name), depth));
      errno = 0;
    }
    return errno == 0 ? absl::OkStatus() : Failed("list", path);
  }

 private:
  static std::string NameIn(const std::string& path) { return std::string(NameOf(path)); }

  static DIR* OpenDirectory(int above, const std::string& name) {
    const int fd =
        openat(above, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    DIR* const listing = fd < 0 ? nullptr : fdopendir(fd);
    if (listing == nullptr && fd >= 0) close(fd);
    return listing;
  }

  absl::Status Failed(std::string_view what, const std::string& path) const {
    return common::ErrnoStatus(
        common::StrCat("cannot ", what, " ", target_.path, "/", common::Printable(path)));
  }
  absl::Status TooMuch(std::string_view what, uint64_t most) const {
    return absl::FailedPreconditionError(
        common::StrCat("what is to be copied to ", target_.path, " has ", what, " ", most));
  }

  absl::Status CopyEntry(int from, int to, const std::string& name, const std::string& path,
                         size_t depth) {
    struct stat info {};
    if (fstatat(from, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return Failed("copy", path);
    if (S_ISDIR(info.st_mode)) return CopyDirectory(from, to, name, path, depth);
    if (S_ISLNK(info.st_mode)) return CopyLink(from, to, name, path);
    if (S_ISREG(info.st_mode)) return CopyFile(from, to, name, path);
    ++done_.left_out;
    return absl::OkStatus();
  }

  absl::Status CopyDirectory(int from, int to, const std::string& name, const std::string& path,
                             size_t depth) {
    if (mkdirat(to, name.c_str(), 0700) != 0) return Failed("create the directory", path);
    const UniqueFd made(openat(to, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!made.valid()) return Failed("open the directory", path);
    RETURN_IF_ERROR(CopyBelow(from, made.get(), path, depth + 1));
    return GiveAway(made.get(), path, 0755);
  }

  absl::Status CopyLink(int from, int to, const std::string& name, const std::string& path) {
    std::string leads_to(kPathBytesMax, '\0');
    const ssize_t count = readlinkat(from, name.c_str(), leads_to.data(), leads_to.size());
    if (count < 0) return Failed("read the link", path);
    leads_to.resize(static_cast<size_t>(count));
    if (symlinkat(leads_to.c_str(), to, name.c_str()) != 0) return Failed("create the link", path);
    if (target_.owner && fchownat(to, name.c_str(), target_.owner->uid, target_.owner->gid,
                                  AT_SYMLINK_NOFOLLOW) != 0) {
      return Failed("change the owner of", path);
    }
    return absl::OkStatus();
  }

  absl::Status CopyFile(int from, int to, const std::string& name, const std::string& path) {
    const UniqueFd source(
        openat(from, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat info {};
    if (!source.valid() || fstat(source.get(), &info) != 0) return Failed("copy", path);
    if (!S_ISREG(info.st_mode)) {
      return absl::FailedPreconditionError(common::StrCat(
          target_.path, "/", common::Printable(path), " changed while it was copied"));
    }
    const UniqueFd made(
        openat(to, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!made.valid()) return Failed("create", path);
    RETURN_IF_ERROR(GiveAway(made.get(), path, (info.st_mode & S_IXUSR) != 0 ? 0755 : 0644));
    const auto size = static_cast<uint64_t>(info.st_size);
    const absl::StatusOr<bool> shared = files_.Copy(source.get(), made.get(), size);
    if (!shared.ok()) {
      return absl::Status(shared.status().code(),
                          common::StrCat(target_.path, "/", common::Printable(path), ": ",
                                         common::MessageOf(shared.status())));
    }
    done_.bytes += size;
    if (*shared) ++done_.shared_files;
    return absl::OkStatus();
  }

  // Changes owner and mode as WriteTree does.
  absl::Status GiveAway(int fd, const std::string& path, mode_t mode) const {
    if (fchmod(fd, mode & ~target_.umask) != 0) return Failed("change the mode of", path);
    if (target_.owner && fchown(fd, target_.owner->uid, target_.owner->gid) != 0) {
      return Failed("change the owner of", path);
    }
    return absl::OkStatus();
  }

  const TreeTarget& target_;
  const uint64_t entries_max_;
  CopiedTree& done_;
  FileCopier files_;
};

}  // namespace

absl::Status CopyTree(int source, const TreeTarget& target, uint64_t entries_max,
                      CopiedTree* done) {
  return TreeCopier(target, entries_max, done).CopyBelow(source, target.directory, "", 0);
}

}  // namespace muster::tree
