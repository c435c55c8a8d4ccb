// Multipart uploads.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"
#include "coordinator/object_files/object_files.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr char kUploads[] = "/.uploads";
constexpr size_t kCopyBytes = 1 << 20;
constexpr size_t kIdBytes = 32;

bool IsId(const std::string& id) {
  return id.size() == kIdBytes && id.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string PartName(int number) {
  char name[24];
  snprintf(name, sizeof name, "part-%05d", number);
  return name;
}

std::optional<int> PartNumber(const std::string& name) {
  int number = 0;
  if (!name.starts_with("part-")) return std::nullopt;
  const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size() || PartName(number) != name)
    return std::nullopt;
  return number;
}

// Differs when the part was written again.
absl::StatusOr<ObjectPart> PartOf(int fd, int number) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return SharedErrno(StrCat("cannot look at part ", number));
  return ObjectPart{
      .number = number,
      .size = static_cast<uint64_t>(info.st_size),
      .tag = StrCat(info.st_ino, "-", info.st_mtim.tv_sec, ".", info.st_mtim.tv_nsec)};
}

absl::StatusOr<common::UniqueFd> OpenNew(const std::string& path) {
  common::UniqueFd file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.valid()) return file;
  return SharedErrno(StrCat("cannot create ", path));
}

absl::Status WriteSource(int fd, const common::ByteSource& bytes) {
  if (const auto* text = std::get_if<std::string_view>(&bytes)) return common::WriteAll(fd, *text);
  std::vector<char> buffer(kCopyBytes);
  for (uint64_t done = 0; done < common::SizeOf(bytes);) {
    ASSIGN_OR_RETURN(const size_t count,
                     common::CopyFrom(bytes, done, buffer.data(), buffer.size()));
    RETURN_IF_ERROR(common::WriteAll(fd, {buffer.data(), count}));
    done += count;
  }
  return absl::OkStatus();
}

// Appends a part; on the file server itself, where that can.
absl::Status AppendPart(int from, uint64_t size, int to) {
  uint64_t done = 0;
  while (done < size) {
    off_t at = static_cast<off_t>(done);
    const ssize_t count = copy_file_range(from, &at, to, nullptr, size - done, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<uint64_t>(count);
  }
  if (done == size) return absl::OkStatus();
  return WriteSource(to, common::FileRange{.fd = from, .offset = done, .size = size - done});
}

absl::Status SyncFile(int fd) {
  return fsync(fd) == 0 ? absl::OkStatus() : SharedErrno("cannot fsync");
}

// All parts in one file, which is synced.
absl::Status Assemble(const std::string& directory, const std::vector<ObjectPart>& parts,
                      const std::string& whole) {
  ASSIGN_OR_RETURN(const common::UniqueFd to, OpenNew(whole));
  for (const ObjectPart& part : parts) {
    const auto from = common::OpenRegular(StrCat(directory, "/", PartName(part.number)),
                                          O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    const absl::StatusOr<ObjectPart> there =
        from.ok() ? PartOf(from->get(), part.number) : from.status();
    if (absl::IsNotFound(there.status()))
      return absl::InvalidArgumentError(StrCat("part ", part.number, " has not arrived"));
    RETURN_IF_ERROR(there.status());
    if (there->size != part.size || there->tag != part.tag)
      return absl::InvalidArgumentError(
          StrCat("part ", part.number, " is not the one that is named: it was sent again"));
    RETURN_IF_ERROR(AppendPart(from->get(), part.size, to.get()));
  }
  return SyncFile(to.get());
}

}  // namespace

// 128 bits, as none may be used twice.
std::string ObjectFiles::NewId() {
  char text[kIdBytes + 1];
  snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(common::Random64()),
           static_cast<unsigned long long>(common::Random64()));
  return text;
}

std::string ObjectFiles::PathOf(const ObjectUpload& upload) const {
  return StrCat(root_, kUploads, "/", upload.id);
}

absl::StatusOr<std::string> ObjectFiles::DirectoryOf(const ObjectUpload& upload) const {
  if (!IsId(upload.id))
    return absl::InvalidArgumentError(StrCat("\"", upload.id, "\" is not an upload's id"));
  const std::string directory = PathOf(upload);
  const auto key = common::ReadFile(StrCat(directory, "/key"), kKeyBytesMax);
  if (key.ok() && *key == upload.key) return directory;
  if (!key.ok() && !absl::IsNotFound(key.status())) return key.status();
  RETURN_IF_ERROR(CheckMark());
  return absl::NotFoundError(
      StrCat("there is no upload ", upload.id, " of ", upload.key, " in ", Name()));
}

absl::StatusOr<ObjectUpload> ObjectFiles::MakeUpload(const std::string& key, bool is_durable) {
  RETURN_IF_ERROR(CheckMark());
  ObjectUpload upload{.key = key, .id = NewId()};
  const std::string directory = PathOf(upload);
  RETURN_IF_ERROR(common::MakeDirectories(directory));
  const std::string path = StrCat(directory, "/key");
  if (!is_durable) {
    RETURN_IF_ERROR(common::WriteFileAtomically(path, key));
    return upload;
  }
  RETURN_IF_ERROR(common::WriteFileDurably(path, key));
  RETURN_IF_ERROR(common::SyncDirectory(StrCat(root_, kUploads)));
  RETURN_IF_ERROR(common::SyncDirectory(root_));
  return upload;
}

absl::StatusOr<ObjectUpload> ObjectFiles::BeginUpload(const std::string& key) {
  RETURN_IF_ERROR(CheckObjectKey(key));
  return MakeUpload(key, /*is_durable=*/true);
}

absl::StatusOr<ObjectPart> ObjectFiles::PutPart(const ObjectUpload& upload, int number,
                                                const common::ByteSource& bytes) {
  RETURN_IF_ERROR(CheckPartNumber(number));
  RETURN_IF_ERROR(CheckPutSize(upload.key, common::SizeOf(bytes)));
  ASSIGN_OR_RETURN(const std::string directory, DirectoryOf(upload));
  const std::string path = StrCat(directory, "/", PartName(number));
  const std::string temporary = StrCat(directory, "/.", PartName(number), "-", NewId());
  ASSIGN_OR_RETURN(const common::UniqueFd file, OpenNew(temporary));
  absl::Status written = WriteSource(file.get(), bytes);
  if (written.ok()) written = SyncFile(file.get());
  if (written.ok() && rename(temporary.c_str(), path.c_str()) != 0)
    written = SharedErrno(StrCat("cannot put ", path, " into place"));
  if (!written.ok()) {
    unlink(temporary.c_str());
    return written;
  }
  RETURN_IF_ERROR(common::SyncDirectory(directory));
  return PartOf(file.get(), number);
}

absl::StatusOr<std::vector<ObjectPart>> ObjectFiles::Parts(const ObjectUpload& upload) {
  ASSIGN_OR_RETURN(const std::string directory, DirectoryOf(upload));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, common::ListDirectory(directory));
  std::vector<ObjectPart> parts;
  for (const std::string& name : names) {
    const std::optional<int> number = PartNumber(name);
    if (!number) continue;
    ASSIGN_OR_RETURN(
        const common::UniqueFd file,
        common::OpenRegular(StrCat(directory, "/", name), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    ASSIGN_OR_RETURN(ObjectPart part, PartOf(file.get(), *number));
    parts.push_back(std::move(part));
  }
  return parts;
}

absl::Status ObjectFiles::Complete(const ObjectUpload& upload,
                                   const std::vector<ObjectPart>& parts) {
  RETURN_IF_ERROR(CheckObjectKey(upload.key));
  ASSIGN_OR_RETURN(const uint64_t size, CheckParts(parts));
  const absl::StatusOr<ObjectInfo> there = Head(upload.key);
  const bool is_there = there.ok() && there->size == size;
  const absl::StatusOr<std::string> directory = DirectoryOf(upload);
  if (absl::IsNotFound(directory.status()) && is_there) return absl::OkStatus();
  RETURN_IF_ERROR(directory.status());
  if (!is_there) {
    const std::string whole = StrCat(*directory, "/.whole-", NewId());
    absl::Status placed = Assemble(*directory, parts, whole);
    if (placed.ok()) placed = Place(whole, upload.key);
    unlink(whole.c_str());
    RETURN_IF_ERROR(placed);
  }
  return common::RemoveTree(*directory);
}

absl::Status ObjectFiles::Abort(const ObjectUpload& upload) {
  if (!IsId(upload.id))
    return absl::InvalidArgumentError(StrCat("\"", upload.id, "\" is not an upload's id"));
  return common::RemoveTree(PathOf(upload));
}

absl::StatusOr<Objects::UploadPage> ObjectFiles::OpenUploads(const std::string& from) {
  const std::string uploads = StrCat(root_, kUploads);
  UploadPage page;
  if (!common::Exists(uploads)) return page;
  ASSIGN_OR_RETURN(const std::vector<std::string> ids, common::ListDirectory(uploads));
  for (const std::string& id : ids) {
    if (!IsId(id) || id <= from) continue;
    if (page.uploads.size() == kPageMax) {
      page.next = page.uploads.back().upload.id;
      return page;
    }
    const std::string directory = StrCat(uploads, "/", id);
    const auto key = common::ReadFile(StrCat(directory, "/key"), kKeyBytesMax);
    struct stat info {};
    const std::string dated = key.ok() ? StrCat(directory, "/key") : directory;
    if (stat(dated.c_str(), &info) != 0) continue;  // it has just ended
    page.uploads.push_back({.upload = {.key = key.value_or(""), .id = id},
                            .begun_ms = info.st_mtim.tv_sec * int64_t{1'000}});
  }
  return page;
}

}  // namespace muster::coordinator
