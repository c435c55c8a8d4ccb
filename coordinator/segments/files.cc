#include "coordinator/segments/files.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

constexpr absl::string_view kSuffix = ".seg";
constexpr absl::string_view kOthers = ".d";

class FileBytes final : public SegmentBytes {
 public:
  explicit FileBytes(std::string path) : path_(std::move(path)) {}

  absl::StatusOr<Piece> Read(uint64_t position, size_t size) override {
    const auto fd = common::OpenRegular(path_, O_RDONLY | O_NOFOLLOW);
    if (absl::IsNotFound(fd.status())) return Piece();
    RETURN_IF_ERROR(fd.status());
    struct stat info {};
    if (fstat(fd->get(), &info) != 0)
      return common::ErrnoStatus(common::StrCat("cannot use ", path_));
    Piece piece;
    ASSIGN_OR_RETURN(piece.bytes, common::ReadAt(fd->get(), position, size, path_));
    // It may have grown since. Behind its end nothing is read: it is shorter than it was.
    piece.total = info.st_size;
    if (!piece.bytes.empty())
      piece.total = std::max<uint64_t>(piece.total, position + piece.bytes.size());
    piece.identity = info.st_ino;
    return piece;
  }
  std::string Name() const override { return path_; }

 private:
  const std::string path_;
};

}  // namespace

std::unique_ptr<SegmentBytes> OpenSegmentFile(std::string path) {
  return std::make_unique<FileBytes>(std::move(path));
}

std::unique_ptr<SegmentBytes> SegmentFiles::Open(uint64_t first_offset) const {
  return OpenSegmentFile(At(first_offset));
}

std::string SegmentFiles::At(uint64_t first_offset) const {
  if (first_offset == 0) return base_ + ".seg";
  char name[32];
  // 13 digits hold every offset of a stream, so names sort in numeric order.
  std::snprintf(name, sizeof name, "/%013llu.seg", static_cast<unsigned long long>(first_offset));
  return DirectoryOfOthers() + name;
}

absl::StatusOr<std::vector<uint64_t>> SegmentFiles::List() const {
  std::vector<uint64_t> offsets;
  if (common::Exists(At(0))) offsets.push_back(0);
  const absl::StatusOr<std::vector<std::string>> names = common::ListDirectory(DirectoryOfOthers());
  if (absl::IsNotFound(names.status())) return offsets;
  RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    absl::string_view number = name;
    uint64_t offset = 0;
    if (!absl::ConsumeSuffix(&number, kSuffix) || !absl::SimpleAtoi(number, &offset)) continue;
    if (At(offset) == common::StrCat(DirectoryOfOthers(), "/", name)) offsets.push_back(offset);
  }
  std::sort(offsets.begin(), offsets.end());
  return offsets;
}

absl::StatusOr<uint64_t> RandomSalt() {
  uint64_t salt = 0;
  if (getrandom(&salt, sizeof salt, 0) != sizeof salt) {
    return common::ErrnoStatus("cannot get a random number");
  }
  return salt;
}

std::string_view SegmentBase(std::string_view name) {
  absl::string_view base = common::ToAbsl(name);
  if (!absl::ConsumeSuffix(&base, kSuffix) && !absl::ConsumeSuffix(&base, kOthers)) return {};
  return {base.data(), base.size()};
}

}  // namespace muster::coordinator
