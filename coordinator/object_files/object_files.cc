#include "coordinator/object_files/object_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "coordinator/object_files/key_walk.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr size_t kPieceBytes = 1 << 20;
constexpr char kMark[] = "/.muster-objects";
// A directory is made again that another machine removed, as it was empty, before something was put into it.
constexpr int kPlacedTries = 100;

int64_t ModifiedMs(const struct stat& info) {
  return info.st_mtim.tv_sec * int64_t{1'000} + info.st_mtim.tv_nsec / 1'000'000;
}

bool AreOne(const std::string& a, const std::string& b) {
  struct stat first {};
  struct stat second {};
  return stat(a.c_str(), &first) == 0 && lstat(b.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

}  // namespace

absl::Status SharedErrno(const std::string& what) {
  switch (errno) {
    case ESTALE:
    case ETIMEDOUT:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENOTCONN:
    case ECONNRESET:
    case EBUSY:
    case EINTR:
      return absl::UnavailableError(StrCat(what, ": ", strerror(errno)));
    default:
      return common::ErrnoStatus(what);
  }
}

absl::StatusOr<std::string> ObjectFiles::ParseAddress(std::string_view text) {
  const auto wrong = [&text](std::string_view why) {
    return absl::InvalidArgumentError(
        StrCat("\"", text, "\" ", why, "; it must be like file:///mnt/shared/muster"));
  };
  if (!text.starts_with(kScheme)) return wrong("does not begin with file://");
  std::string_view path = text.substr(kScheme.size());
  if (!path.starts_with('/')) return wrong("names no absolute path");
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (path == "/") return wrong("is the root of this machine");
  const bool is_plain = std::all_of(path.begin(), path.end(), [](unsigned char c) {
    return c > ' ' && c != 0x7f && c != '?' && c != '#' && c != '%';
  });
  if (!is_plain) return wrong("has blanks, control characters, '?', '#' or '%'");
  if (StrCat(path, "/").find("/../") != std::string::npos) return wrong("has \"..\"");
  return std::string(path);
}

absl::StatusOr<std::string> ObjectFiles::MarkOf(const std::string& directory) {
  const std::string path = StrCat(directory, kMark), made = StrCat(path, "-", NewId());
  RETURN_IF_ERROR(common::WriteFileDurably(made, NewId()));
  const bool is_first = link(made.c_str(), path.c_str()) == 0;
  // Some file systems have no links. There two coordinators may do this at once: both have the later one's, then.
  if (!is_first && errno != EEXIST && !common::Exists(path)) {
    rename(made.c_str(), path.c_str());
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  unlink(made.c_str());
  RETURN_IF_ERROR(common::SyncDirectory(directory));
  return common::ReadFile(path);
}

absl::StatusOr<std::unique_ptr<Objects>> ObjectFiles::Open(const std::string& directory) {
  struct stat info {};
  if (stat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(
        StrCat("objects cannot be kept in ", directory,
               ": there is no such directory; fix: mount the file system "
               "that the cluster shares, then mkdir ",
               directory));
  }
  if (access(directory.c_str(), R_OK | W_OK | X_OK) != 0) {
    return absl::PermissionDeniedError(StrCat("objects cannot be kept in ", directory, ": ",
                                              strerror(errno),
                                              "; fix: let the coordinator's user write there"));
  }
  ASSIGN_OR_RETURN(std::string mark, MarkOf(directory));
  return std::unique_ptr<Objects>(new ObjectFiles(directory, std::move(mark)));
}

absl::Status ObjectFiles::CheckMark() const {
  const absl::StatusOr<std::string> found = common::ReadFile(StrCat(root_, kMark));
  if (found.ok() && *found == mark_) return absl::OkStatus();
  return absl::UnavailableError(
      StrCat(root_, " is not the directory that it was when the coordinator started: its file ",
             kMark + 1, " is missing or another one; fix: mount the file system again"));
}

std::string ObjectFiles::Name() const { return StrCat(kScheme, root_); }

std::string ObjectFiles::PathOf(const std::string& key) const { return StrCat(root_, "/", key); }

absl::Status ObjectFiles::Place(const std::string& file, const std::string& key) {
  const std::string path = PathOf(key);
  for (int tries = 1;; ++tries) {
    const absl::Status made = common::MakeDirectories(ParentOf(path));
    if (absl::IsNotFound(made) && tries < kPlacedTries) continue;
    RETURN_IF_ERROR(made);
    if (link(file.c_str(), path.c_str()) == 0) break;
    // NFS may link, lose the answer, and find the name taken when it asks again.
    if (errno == EEXIST && AreOne(file, path)) break;
    if (errno == EEXIST)
      return absl::AlreadyExistsError(StrCat(key, " is in ", Name(), " already"));
    // Some file systems have no links. What may be there was looked for.
    const bool has_links = errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS;
    if (!has_links && rename(file.c_str(), path.c_str()) == 0) break;
    if (errno != ENOENT || tries == kPlacedTries) return SharedErrno(StrCat("cannot link ", path));
  }
  // Also those that another machine has just made and not yet synced.
  for (std::string directory = ParentOf(path);; directory = ParentOf(directory)) {
    RETURN_IF_ERROR(common::SyncDirectory(directory));
    if (directory.size() <= root_.size()) return absl::OkStatus();
  }
}

absl::Status ObjectFiles::Put(const std::string& key, const common::ByteSource& bytes) {
  RETURN_IF_ERROR(CheckObjectKey(key));
  RETURN_IF_ERROR(CheckPutSize(key, common::SizeOf(bytes)));
  if (common::Exists(PathOf(key)))
    return absl::AlreadyExistsError(StrCat(key, " is in ", Name(), " already"));
  // As an upload of one part, so that what a killed put leaves is found as an upload is.
  ASSIGN_OR_RETURN(const ObjectUpload upload, MakeUpload(key, /*is_durable=*/false));
  const absl::StatusOr<ObjectPart> part = PutPart(upload, 1, bytes);
  absl::Status put = part.status();
  if (put.ok()) put = Place(StrCat(PathOf(upload), "/part-00001"), key);
  Abort(upload).IgnoreError();  // else it stays as one that was not completed
  return put;
}

absl::Status ObjectFiles::Fetch(const std::string& key, const Range& range, const Sink& sink) {
  RETURN_IF_ERROR(CheckObjectKey(key));
  if (range.size > kObjectBytesMax || range.offset > kObjectBytesMax)
    return absl::InvalidArgumentError(StrCat("objects have at most ", kObjectBytesMax, " bytes"));
  RETURN_IF_ERROR(Head(key).status());
  ASSIGN_OR_RETURN(const common::UniqueFd file,
                   common::OpenRegular(PathOf(key), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  for (uint64_t done = 0; done < range.size;) {
    const size_t want = std::min<uint64_t>(kPieceBytes, range.size - done);
    ASSIGN_OR_RETURN(const std::string piece,
                     common::ReadAt(file.get(), range.offset + done, want, key));
    if (!piece.empty()) RETURN_IF_ERROR(sink(piece));
    if (piece.size() < want) return absl::OkStatus();
    done += piece.size();
  }
  return absl::OkStatus();
}

absl::StatusOr<ObjectInfo> ObjectFiles::Head(const std::string& key) {
  RETURN_IF_ERROR(CheckObjectKey(key));
  struct stat info {};
  if (lstat(PathOf(key).c_str(), &info) != 0) {
    const int why = errno;
    RETURN_IF_ERROR(CheckMark());
    errno = why;
    if (errno == ENOTDIR) errno = ENOENT;  // a part of the key is an object
    return SharedErrno(StrCat("object ", key, " in ", Name()));
  }
  if (!S_ISREG(info.st_mode))
    return absl::NotFoundError(StrCat("object ", key, " is not in ", Name()));
  return ObjectInfo{
      .key = key, .size = static_cast<uint64_t>(info.st_size), .modified_ms = ModifiedMs(info)};
}

absl::StatusOr<Objects::Page> ObjectFiles::List(const std::string& prefix,
                                                const std::string& from) {
  RETURN_IF_ERROR(CheckMark());
  RETURN_IF_ERROR(CheckObjectPrefix(prefix));
  Page page;
  std::string last;
  size_t looked_at = 0;
  RETURN_IF_ERROR(
      WalkKeys({.root = root_, .prefix = prefix, .after = from}, [&](const std::string& key) {
        if (looked_at == kPageMax) {
          page.next = last;
          return false;
        }
        ++looked_at;
        last = key;
        absl::StatusOr<ObjectInfo> info = Head(key);
        if (info.ok()) page.objects.push_back(*std::move(info));
        return true;
      }));
  return page;
}

absl::Status ObjectFiles::Delete(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) RETURN_IF_ERROR(CheckObjectKey(key));
  RETURN_IF_ERROR(CheckMark());
  for (const std::string& key : keys) {
    const std::string path = PathOf(key);
    if (unlink(path.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR)
      return SharedErrno(StrCat("cannot delete ", path));
    // Directories are not objects: the empty ones go, as far as they are.
    for (std::string directory = ParentOf(path);
         directory.size() > root_.size() && rmdir(directory.c_str()) == 0;)
      directory = ParentOf(directory);
  }
  return absl::OkStatus();
}

absl::StatusOr<PresignedUrl> ObjectFiles::PresignPart(const ObjectUpload&, int, uint64_t,
                                                      std::chrono::seconds) {
  return absl::UnimplementedError(StrCat(Name(), " has no presigned URLs"));
}

absl::StatusOr<PresignedUrl> ObjectFiles::PresignGet(const std::string&, std::chrono::seconds) {
  return absl::UnimplementedError(StrCat(Name(), " has no presigned URLs"));
}

}  // namespace muster::coordinator
