#include "common/files/files.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/base/status.h"
#include "common/files/plain_files.h"
#include "common/text/strings.h"

namespace muster::common {
namespace fs = std::filesystem;

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) {
    Reset();
    fd_ = other.Release();
  }
  return *this;
}

int UniqueFd::Release() { return std::exchange(fd_, -1); }

void UniqueFd::Reset() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

absl::Status ErrnoStatus(std::string_view what) {
  const int error = errno;
  std::string text = StrCat(what, ": ", std::strerror(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(text);
    case EMFILE:
    case ENFILE:
      return absl::UnavailableError(text);
    case ENOENT:
      return absl::NotFoundError(text);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(text);
    case EEXIST:
      return absl::AlreadyExistsError(text);
    default:
      return absl::InternalError(text);
  }
}

absl::StatusOr<UniqueFd> OpenInRoot(int root, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const long fd = syscall(SYS_openat2, root, path.c_str(), &how, sizeof how);
  if (fd < 0) return ErrnoStatus(path);
  return UniqueFd(static_cast<int>(fd));
}

absl::StatusOr<UniqueFd> OpenRegular(const std::string& path, int flags, int mode) {
  UniqueFd fd(open(path.c_str(), flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode));
  const int error = errno;
  struct stat info {};
  // A FIFO without a reader cannot be opened for writing at all; a socket and some devices never
  // can.
  const bool special = fd.valid() ? fstat(fd.get(), &info) == 0 && !S_ISREG(info.st_mode)
                                  : error == ENXIO || error == ENODEV;
  if (special) {
    return absl::InvalidArgumentError(
        StrCat(path, " is not a regular file (FIFOs, devices and directories are not opened)"));
  }
  if (!fd.valid() && error == ELOOP && (flags & O_NOFOLLOW) != 0)
    return absl::InvalidArgumentError(StrCat(path, " is a symbolic link, which is not followed"));
  errno = error;
  if (!fd.valid()) return ErrnoStatus(StrCat("cannot open ", path));
  return fd;
}

namespace {

absl::StatusOr<std::string> ReadAll(int fd, const std::string& path, size_t max_bytes) {
  std::string content;
  char buffer[64 * 1024];
  while (true) {
    const ssize_t count = read(fd, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(StrCat("cannot read ", path));
    if (count == 0) return content;
    content.append(buffer, static_cast<size_t>(count));
    if (content.size() > max_bytes) {
      return absl::ResourceExhaustedError(
          StrCat(path, " is larger than the limit of ", max_bytes, " bytes"));
    }
  }
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenRegular(path, O_RDONLY));
  return ReadAll(fd.get(), path, max_bytes);
}

absl::StatusOr<std::string> ReadFileOrPipe(const std::string& path, size_t max_bytes) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(StrCat("cannot open ", path));
  return ReadAll(fd.get(), path, max_bytes);
}

absl::StatusOr<std::string> ReadAt(int fd, uint64_t offset, size_t size, std::string_view name) {
  std::string bytes(size, '\0');
  size_t have = 0;
  while (have < size) {
    const ssize_t count =
        pread(fd, bytes.data() + have, size - have, static_cast<off_t>(offset + have));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(StrCat("cannot read ", name));
    if (count == 0) break;
    have += static_cast<size_t>(count);
  }
  bytes.resize(have);
  return bytes;
}

absl::Status WriteAll(int fd, std::string_view data) {
  return WriteAllFd(fd, data) ? absl::OkStatus() : ErrnoStatus("cannot write");
}

namespace {

std::string_view WordsFor(ReplaceStep step) {
  switch (step) {
    case ReplaceStep::kWrite:
      return "cannot write";
    case ReplaceStep::kSync:
      return "cannot fsync";
    default:
      return "cannot move into place";
  }
}

absl::Status Replace(const std::string& path, std::string_view content, const Replacing& how) {
  const ReplaceStep step = ReplaceFile(path, content, how);
  if (step == ReplaceStep::kDone) return absl::OkStatus();
  if (step == ReplaceStep::kCreate) return ErrnoStatus(StrCat("cannot create ", how.temporary));
  if (step == ReplaceStep::kSyncDirectory) {
    return ErrnoStatus(StrCat("cannot fsync ", fs::path(path).parent_path().string()));
  }
  return ErrnoStatus(StrCat(path, ": ", WordsFor(step)));
}

// The name is unique to this process, because two processes may write the same file at once.
std::string TemporaryFor(const std::string& path) { return StrCat(path, ".tmp.", getpid()); }

}  // namespace

absl::Status WriteFileDurably(const std::string& path, std::string_view content, int mode) {
  return Replace(path, content,
                 {.temporary = TemporaryFor(path), .mode = static_cast<unsigned>(mode)});
}

absl::Status CreateFileDurably(const std::string& path, std::string_view content, int mode) {
  return Replace(
      path, content,
      {.temporary = TemporaryFor(path), .mode = static_cast<unsigned>(mode), .must_be_new = true});
}

absl::Status WriteFileAtomically(const std::string& path, std::string_view content) {
  return Replace(path, content, {.temporary = path + ".tmp", .is_durable = false});
}

absl::Status WriteInPlace(const std::string& path, std::string_view content) {
  ASSIGN_OR_RETURN(const UniqueFd file, OpenRegular(path, O_WRONLY | O_CREAT | O_NOFOLLOW));
  return WriteAll(file.get(), content);
}

absl::Status MakeDirectories(const std::string& path, int mode) {
  if (mkdir(path.c_str(), mode) == 0)
    return absl::OkStatus();  // nearly always what is above it is there
  std::string built;
  for (const fs::path& part : fs::path(path)) {
    built = built.empty() ? part.string() : (fs::path(built) / part).string();
    if (mkdir(built.c_str(), mode) != 0 && errno != EEXIST) {
      return ErrnoStatus(StrCat("cannot create directory ", built));
    }
  }
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(StrCat("cannot use ", path));
  if (!S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(StrCat(path, " is not a directory"));
  }
  return absl::OkStatus();
}

absl::Status SyncDirectory(const std::string& path) {
  const std::string directory = path.empty() ? "." : path;
  UniqueFd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(StrCat("cannot open directory ", directory));
  if (fsync(fd.get()) != 0) return ErrnoStatus(StrCat("cannot fsync ", directory));
  return absl::OkStatus();
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path, size_t max) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (names.size() == max) {
      return absl::ResourceExhaustedError(StrCat(path, " holds more than ", max, " entries"));
    }
    names.push_back(entry->path().filename().string());
  }
  if (error) {
    errno = error.value();
    return ErrnoStatus(StrCat("cannot list ", path));
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<UniqueFd> LockFile(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoStatus(StrCat("cannot open lock ", path));
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return absl::FailedPreconditionError(StrCat(path, " is locked by another process"));
    }
    return ErrnoStatus(StrCat("cannot lock ", path));
  }
  return fd;
}

}  // namespace muster::common
