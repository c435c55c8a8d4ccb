#include "coordinator/store_parts/object_blobs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "absl/strings/str_format.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/log.h"
#include "common/text/strings.h"

namespace muster::coordinator {
using common::StrCat;

std::string NewObjectKey(const std::string& prefix, const std::string& sha256) {
  return StrCat(prefix, sha256.substr(0, 2), "/", sha256, "/",
                absl::StrFormat("%016x", common::Random64()));
}

absl::Status ObjectBlobs::Put(const std::string& path, const std::string& sha256) {
  RETURN_IF_ERROR(CheckBlobName(sha256));
  ASSIGN_OR_RETURN(const common::UniqueFd file, common::OpenRegular(path, O_RDONLY | O_NOFOLLOW));
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return common::ErrnoStatus(StrCat("cannot stat ", path));
  const NamedObject object{.key = NewObjectKey(prefix_, sha256),
                           .bytes = static_cast<uint64_t>(info.st_size)};
  RETURN_IF_ERROR(Send(object.key, file.get(), object.bytes));
  RETURN_IF_ERROR(names_.Name(sha256, object));
  unlink(path.c_str());
  return absl::OkStatus();
}

absl::Status ObjectBlobs::Send(const std::string& key, int fd, uint64_t size) {
  if (size <= kInPartsAbove) return objects_.Put(key, common::FileRange{fd, 0, size});
  ASSIGN_OR_RETURN(const ObjectUpload upload, objects_.BeginUpload(key));
  const uint64_t part_bytes = PartBytesFor(size);
  std::vector<ObjectPart> parts;
  for (uint64_t offset = 0; offset < size; offset += part_bytes) {
    const common::FileRange range{fd, offset, std::min(part_bytes, size - offset)};
    absl::StatusOr<ObjectPart> part =
        objects_.PutPart(upload, static_cast<int>(parts.size()) + 1, range);
    if (!part.ok()) {
      objects_.Abort(upload).IgnoreError();
      return part.status();
    }
    parts.push_back(*std::move(part));
  }
  return objects_.Complete(upload, parts);
}

template <typename Result, typename Reader, typename Again>
absl::StatusOr<Result> ObjectBlobs::ReadBefore(const std::string& sha256, const Reader& read,
                                               const Again& again) const {
  const absl::Status missing = absl::NotFoundError(StrCat("blob ", sha256, " is missing"));
  if (before_ == nullptr) return missing;
  absl::StatusOr<Result> found = read(*before_);
  if (!absl::IsNotFound(found.status())) return found;
  ASSIGN_OR_RETURN(const std::optional<NamedObject> object, names_.Find(sha256));
  if (!object.has_value()) return missing;
  return again();
}

absl::StatusOr<std::string> ObjectBlobs::Read(const std::string& sha256, uint64_t offset,
                                              size_t max) const {
  RETURN_IF_ERROR(CheckBlobName(sha256));
  ASSIGN_OR_RETURN(const std::optional<NamedObject> object, names_.Find(sha256));
  if (!object.has_value()) {
    return ReadBefore<std::string>(
        sha256, [&](const BlobStore& before) { return before.Read(sha256, offset, max); },
        [&] { return Read(sha256, offset, max); });
  }
  return ReadObject(*object, offset, max);
}

absl::StatusOr<std::string> ObjectBlobs::ReadObject(const NamedObject& object, uint64_t offset,
                                                    size_t max) const {
  if (offset >= object.bytes) return std::string();
  const uint64_t wanted = std::min<uint64_t>(max, object.bytes - offset);
  std::string bytes;
  while (bytes.size() < wanted) {
    const uint64_t left = std::min<uint64_t>(wanted - bytes.size(), Objects::kReadBytesMax);
    ASSIGN_OR_RETURN(std::string piece,
                     objects_.Read(object.key, {.offset = offset + bytes.size(), .size = left}));
    if (piece.size() != left)
      return absl::DataLossError(StrCat("the object ", object.key, " of ", objects_.Name(),
                                        " is shorter than the ", object.bytes, " bytes it had"));
    bytes.empty() ? bytes.swap(piece) : static_cast<void>(bytes += piece);
  }
  return bytes;
}

absl::StatusOr<uint64_t> ObjectBlobs::Size(const std::string& sha256) const {
  RETURN_IF_ERROR(CheckBlobName(sha256));
  ASSIGN_OR_RETURN(const std::optional<NamedObject> object, names_.Find(sha256));
  if (object.has_value()) return object->bytes;
  return ReadBefore<uint64_t>(
      sha256, [&](const BlobStore& before) { return before.Size(sha256); },
      [&] { return Size(sha256); });
}

absl::StatusOr<std::string> ObjectBlobs::ReadFor(uint64_t job, const std::string& sha256,
                                                 uint64_t offset, size_t max) const {
  RETURN_IF_ERROR(CheckBlobName(sha256));
  ASSIGN_OR_RETURN(const std::optional<NamedObject> sent, names_.FindSent(job, sha256));
  return sent.has_value() ? ReadObject(*sent, offset, max) : Read(sha256, offset, max);
}

absl::StatusOr<uint64_t> ObjectBlobs::SizeFor(uint64_t job, const std::string& sha256) const {
  RETURN_IF_ERROR(CheckBlobName(sha256));
  ASSIGN_OR_RETURN(const std::optional<NamedObject> sent, names_.FindSent(job, sha256));
  return sent.has_value() ? sent->bytes : Size(sha256);
}

absl::StatusOr<bool> ObjectBlobs::IsSentBy(uint64_t job, const std::string& sha256) const {
  RETURN_IF_ERROR(CheckBlobName(sha256));
  ASSIGN_OR_RETURN(const std::optional<NamedObject> sent, names_.FindSent(job, sha256));
  return sent.has_value();
}

absl::StatusOr<std::vector<std::string>> ObjectBlobs::List(std::chrono::hours age) const {
  const int64_t age_ms = std::chrono::milliseconds(age).count();
  ASSIGN_OR_RETURN(std::vector<std::string> old,
                   names_.NamedBefore(clock_.Read().lived_ms - age_ms));
  if (before_ == nullptr) return old;
  ASSIGN_OR_RETURN(const std::vector<std::string> older, before_->List(age));
  old.insert(old.end(), older.begin(), older.end());
  std::sort(old.begin(), old.end());
  old.erase(std::unique(old.begin(), old.end()), old.end());
  return old;
}

bool ObjectBlobs::Delete(const std::string& sha256) {
  const bool was_before = before_ != nullptr && before_->Delete(sha256);
  const absl::StatusOr<bool> doomed = names_.Doom(sha256);
  if (!doomed.ok())
    common::LogWarning(StrCat("the blob ", sha256, " is kept: ", doomed.status().message()));
  return doomed.ok() && (*doomed || was_before);
}

}  // namespace muster::coordinator
