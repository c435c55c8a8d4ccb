#include "client/machine/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "common/base/status.h"
#include "common/problem.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr size_t kBufferBytes = 256 * 1024;
constexpr mode_t kMode = 0666;  // the umask applies

absl::Status CannotWrite(const absl::Status& error) {
  return common::MakeProblem(absl::StatusCode::kInternal,
                             {.code = "JC1601", .what = common::MessageOf(error)});
}

absl::Status AlreadyThere(const std::string& path) {
  return common::MakeProblem(absl::StatusCode::kAlreadyExists,
                             {.code = "JC1545",
                              .what = StrCat(path, " exists; nothing was written"),
                              .fix = "add --force to replace it, or choose another --out"});
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string TemporaryFor(const std::string& path) { return StrCat(path, ".tmp-", getpid()); }

}  // namespace

absl::StatusOr<OutputFile> OutputFile::Create(const std::string& path, bool replace) {
  struct stat info {};
  const bool exists = lstat(path.c_str(), &info) == 0;
  if (exists && !S_ISREG(info.st_mode)) {
    return common::MakeProblem(absl::StatusCode::kAlreadyExists,
                               {.code = "JC1545",
                                .what = StrCat(path, " exists and is not a regular file"),
                                .fix = "choose another --out"});
  }
  if (exists && !replace) return AlreadyThere(path);
  const std::string directory = DirectoryOf(path);
  if (const absl::Status made = common::MakeDirectories(directory, 0777); !made.ok()) {
    return CannotWrite(made);
  }
  OutputFile file(path, replace);
  file.fd_ = common::UniqueFd(open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode));
  if (!file.fd_.valid()) {
    const std::string temporary = TemporaryFor(path);
    file.fd_ = common::UniqueFd(
        open(temporary.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, kMode));
    if (!file.fd_.valid()) {
      return CannotWrite(common::ErrnoStatus(StrCat("cannot create ", temporary)));
    }
    file.temporary_ = temporary;
  }
  return file;
}

OutputFile::~OutputFile() {
  if (fd_.valid() && !temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status OutputFile::Flush() {
  const absl::Status written = common::WriteAll(fd_.get(), buffer_);
  buffer_.clear();
  if (written.ok()) return written;
  return CannotWrite(
      absl::InternalError(StrCat("cannot write ", path_, ": ", common::MessageOf(written))));
}

absl::Status OutputFile::Write(std::string_view bytes) {
  buffer_ += bytes;
  return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
}

absl::Status OutputFile::Commit() {
  RETURN_IF_ERROR(Flush());
  if (fsync(fd_.get()) != 0) {
    return CannotWrite(common::ErrnoStatus(StrCat("cannot write ", path_)));
  }
  const std::string unnamed = StrCat("/proc/self/fd/", fd_.get());
  // Only a link can refuse to replace; only a rename can replace.
  if (replace_ && temporary_.empty()) {
    const std::string temporary = TemporaryFor(path_);
    if (linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, temporary.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      return CannotWrite(common::ErrnoStatus(StrCat("cannot create ", temporary)));
    }
    temporary_ = temporary;
  }
  int done = 0;
  if (replace_) {
    done = rename(temporary_.c_str(), path_.c_str());
    if (done == 0) temporary_.clear();
  } else if (temporary_.empty()) {
    done = linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW);
  } else {
    done = link(temporary_.c_str(), path_.c_str());  // the destructor removes the other name
  }
  if (done != 0 && errno == EEXIST) return AlreadyThere(path_);
  if (done != 0) return CannotWrite(common::ErrnoStatus(StrCat("cannot create ", path_)));
  return absl::OkStatus();
}

}  // namespace muster::client
