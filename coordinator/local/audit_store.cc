#include "coordinator/local/audit_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/status.h"
#include "common/log.h"
#include "common/text/strings.h"
#include "coordinator/local/audit_files.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr uint64_t kRoomBytes = 256 << 10;

}  // namespace

absl::StatusOr<AuditStore::End> LocalAuditStore::Recover() {
  RETURN_IF_ERROR(common::MakeDirectories(directory_));
  ASSIGN_OR_RETURN(const AuditEnd end, RecoverAudit(directory_));
  path_ = end.path;
  size_ = end.size;
  if (!path_.empty()) {
    ASSIGN_OR_RETURN(file_, common::OpenRegular(path_, O_WRONLY | O_APPEND | O_CLOEXEC));
  }
  return End{end.head, end.cut_bytes};
}

absl::Status LocalAuditStore::OpenNext(uint64_t first) {
  const std::string path = AuditFilePath(directory_, first);
  ASSIGN_OR_RETURN(common::UniqueFd file,
                   common::OpenRegular(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC));
  RETURN_IF_ERROR(common::SyncDirectory(directory_));
  file_ = std::move(file);
  path_ = path;
  size_ = room_until_ = 0;
  KeepRoom();
  return absl::OkStatus();
}

absl::Status LocalAuditStore::CutRest() {
  if (!has_rest_) return absl::OkStatus();
  if (ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) {
    return common::ErrnoStatus(StrCat("cannot cut ", path_, " to ", size_, " bytes"));
  }
  has_rest_ = false;
  room_until_ = 0;  // the space behind its end is free again
  return absl::OkStatus();
}

// Best effort: not every file system supports it.
void LocalAuditStore::KeepRoom() {
  if (size_ + kRoomBytes / 2 < room_until_) return;
  const auto bytes = static_cast<off_t>(kRoomBytes);
  if (fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(size_), bytes) == 0)
    room_until_ = size_ + kRoomBytes;
}

bool LocalAuditStore::IsTouched() const {
  struct stat own {
  }, there{};
  if (!file_.valid() || fstat(file_.get(), &own) != 0) return false;
  if (lstat(path_.c_str(), &there) != 0) return errno == ENOENT;
  return own.st_dev != there.st_dev || own.st_ino != there.st_ino ||
         static_cast<uint64_t>(own.st_size) != size_;
}

absl::StatusOr<std::string> LocalAuditStore::LeaveTouched(uint64_t next) {
  RETURN_IF_ERROR(CutRest());
  if (!IsTouched()) return std::string();
  std::string what = StrCat("the audit's file ", path_, " was removed, replaced or changed");
  RETURN_IF_ERROR(OpenNext(next));
  return what;
}

absl::Status LocalAuditStore::Append(const std::vector<const v1::AuditEntry*>& entries) {
  if (!file_.valid() || size_ >= kAuditFileBytes) {
    RETURN_IF_ERROR(OpenNext(entries.front()->number()));
  }
  std::string lines;
  for (const v1::AuditEntry* entry : entries) lines += AuditLine(*entry);
  absl::Status written = common::WriteAll(file_.get(), lines);
  if (written.ok() && fdatasync(file_.get()) != 0) {
    written = common::ErrnoStatus(StrCat("cannot sync ", path_));
  }
  if (!written.ok()) {
    // The next attempt starts at the same place.
    has_rest_ = true;
    if (const absl::Status cut = CutRest(); !cut.ok()) common::LogError(common::MessageOf(cut));
    return written;
  }
  size_ += lines.size();
  KeepRoom();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint64_t>> LocalAuditStore::Parts() const {
  ASSIGN_OR_RETURN(const std::vector<AuditFile> files, ListAuditFiles(directory_));
  std::vector<uint64_t> parts;
  for (const AuditFile& file : files) parts.push_back(file.first);
  return parts;
}

absl::StatusOr<AuditPart> LocalAuditStore::Read(uint64_t first) const {
  return ReadAuditFile({first, AuditFilePath(directory_, first)});
}

}  // namespace muster::coordinator
