#include "tree/write_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "tree/directories.h"

namespace muster::tree {
namespace {

using common::StrCat;
using common::UniqueFd;

class Writer {
 public:
  Writer(const Manifest& manifest, const TreeTarget& target, const FillFile& fill)
      : manifest_(manifest), target_(target), fill_(fill), directories_(target.directory) {}

  absl::Status Write() {
    RETURN_IF_ERROR(CheckSpace());
    absl::Status written = WriteEntries();
    if (written.ok()) written = FinishDirectories();
    if (!written.ok()) {
      written = Explained(written);
      Remove();
    }
    return written;
  }

 private:
  std::string Name(const Entry& entry) const {
    return StrCat(target_.path, "/", common::Printable(entry.path));
  }
  absl::Status Failed(std::string_view what, const Entry& entry) const {
    return common::ErrnoStatus(StrCat("cannot ", what, " ", Name(entry)));
  }

  // Runs before anything is written, because a disk that is filled to the last byte harms others.
  absl::Status CheckSpace() const {
    struct statvfs disk {};
    if (fstatvfs(target_.directory, &disk) != 0) return absl::OkStatus();
    const uint64_t bytes = manifest_.TotalBytes();
    const bool enough = bytes / std::max<uint64_t>(disk.f_frsize, 1) <= disk.f_bavail &&
                        (disk.f_files == 0 || manifest_.entries.size() <= disk.f_favail);
    return enough ? absl::OkStatus() : NoSpace("does not fit");
  }

  absl::Status NoSpace(std::string_view what) const {
    struct statvfs disk {};
    fstatvfs(target_.directory, &disk);
    return absl::ResourceExhaustedError(
        StrCat("the tree ", what, " into ", target_.path, ": it needs ", manifest_.TotalBytes(),
               " bytes in ", manifest_.entries.size(), " files and directories, and ",
               disk.f_bavail * disk.f_frsize, " bytes and ", disk.f_favail,
               " files are free; fix: free space there, or raise the quota"));
  }

  absl::Status Explained(const absl::Status& status) const {
    if (!absl::IsResourceExhausted(status)) return status;
    return NoSpace(StrCat("cannot be written (", status.message(), ")"));
  }

  absl::Status WriteEntries() {
    for (size_t i = 0; i < manifest_.entries.size(); ++i) {
      if (target_.stopped && target_.stopped()) {
        return absl::CancelledError(StrCat("writing into ", target_.path, " was stopped"));
      }
      const Entry& entry = manifest_.entries[i];
      const int above = directories_.Enter(ParentOf(entry.path));
      if (above < 0) return Failed("open the directory of", entry);
      const std::string name(NameOf(entry.path));
      if (entry.kind == Kind::kDirectory) {
        if (mkdirat(above, name.c_str(), 0700) != 0) return Failed("create the directory", entry);
        Began(entry);
      } else if (entry.kind == Kind::kLink) {
        RETURN_IF_ERROR(MakeLink(above, name, entry));
      } else {
        RETURN_IF_ERROR(MakeFile(above, name, i));
      }
    }
    return absl::OkStatus();
  }

  // The entry is removed if the rest fails, a directory with everything in it.
  void Began(const Entry& entry) {
    if (ParentOf(entry.path).empty()) began_.push_back(&entry);
  }

  absl::Status MakeLink(int above, const std::string& name, const Entry& entry) {
    if (symlinkat(entry.target.c_str(), above, name.c_str()) != 0) {
      return Failed("create the link", entry);
    }
    Began(entry);
    if (target_.owner && fchownat(above, name.c_str(), target_.owner->uid, target_.owner->gid,
                                  AT_SYMLINK_NOFOLLOW) != 0) {
      return Failed("change the owner of", entry);
    }
    return absl::OkStatus();
  }

  absl::Status MakeFile(int above, const std::string& name, size_t at) {
    const Entry& entry = manifest_.entries[at];
    const UniqueFd fd(
        openat(above, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd.valid()) return Failed("create", entry);
    Began(entry);
    RETURN_IF_ERROR(GiveAway(fd.get(), entry, entry.kind == Kind::kExecutable ? 0755 : 0644));
    if (const absl::Status filled = fill_(at, fd.get()); !filled.ok()) {
      return absl::Status(filled.code(), StrCat(Name(entry), ": ", filled.message()));
    }
    return absl::OkStatus();
  }

  // The mode first: without CAP_FOWNER only the owner may change it.
  absl::Status GiveAway(int fd, const Entry& entry, mode_t mode) const {
    if (fchmod(fd, mode & ~target_.umask) != 0) return Failed("change the mode of", entry);
    if (target_.owner && fchown(fd, target_.owner->uid, target_.owner->gid) != 0) {
      return Failed("change the owner of", entry);
    }
    return absl::OkStatus();
  }

  // The deepest first, because nothing more may be done in a directory once it belongs to its
  // owner.
  absl::Status FinishDirectories() {
    for (auto entry = manifest_.entries.rbegin(); entry != manifest_.entries.rend(); ++entry) {
      if (entry->kind != Kind::kDirectory) continue;
      const int fd = directories_.Enter(entry->path);
      if (fd < 0) return Failed("open the directory", *entry);
      RETURN_IF_ERROR(GiveAway(fd, *entry, 0755));
    }
    return absl::OkStatus();
  }

  void Remove() const {
    for (const Entry* entry : began_) {
      // Through the descriptor, because the directory may have been renamed.
      common::RemoveTree(StrCat("/proc/self/fd/", target_.directory, "/", entry->path))
          .IgnoreError();
    }
  }

  const Manifest& manifest_;
  const TreeTarget& target_;
  const FillFile& fill_;
  Directories directories_;
  std::vector<const Entry*> began_;
};

}  // namespace

absl::Status WriteTree(const Manifest& manifest, const TreeTarget& target, const FillFile& fill) {
  return Writer(manifest, target, fill).Write();
}

}  // namespace muster::tree
