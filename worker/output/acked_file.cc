#include "worker/output/acked_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>
#include <utility>

#include "common/files/files.h"

namespace muster::worker {
namespace {

constexpr size_t kLineBytes = 64;  // divides a page, so the kernel writes a line whole
constexpr size_t kAckedBytesMax = 4 << 20;

}  // namespace

AckedFile::AckedFile(std::string path, uint32_t first_rank, uint32_t ranks)
    : path_(std::move(path)), first_rank_(first_rank), offsets_(size_t{ranks} * 2) {
  const absl::StatusOr<std::string> text = common::ReadFile(path_, kAckedBytesMax);
  if (!text.ok()) return;
  std::istringstream lines(*text);
  uint32_t rank = 0, stream = 0;
  uint64_t offset = 0;
  while (lines >> rank >> stream >> offset) {
    const uint64_t line = (uint64_t{rank} - first_rank_) * 2 + stream;
    if (rank >= first_rank_ && stream < 2 && line < offsets_.size()) offsets_[line] = offset;
  }
}

void AckedFile::Save(uint32_t rank, common::Stream stream, uint64_t offset) {
  const size_t line = Line(rank, stream);
  offsets_[line] = offset;
  if (is_written_ && Replace(line)) return;
  std::string text;
  for (size_t each = 0; each < offsets_.size(); ++each) text += TextOf(each);
  is_written_ = common::WriteFileAtomically(path_, text).ok();
}

std::string AckedFile::TextOf(size_t line) const {
  char text[kLineBytes + 1];
  std::snprintf(text, sizeof text, "%10u %u %*llu\n", first_rank_ + static_cast<uint32_t>(line / 2),
                static_cast<unsigned>(line % 2), static_cast<int>(kLineBytes) - 14,
                static_cast<unsigned long long>(offsets_[line]));
  return text;
}

bool AckedFile::Replace(size_t line) const {
  const auto file = common::OpenRegular(path_, O_WRONLY | O_NOFOLLOW);
  const std::string text = TextOf(line);
  return file.ok() &&
         pwrite(file->get(), text.data(), text.size(), static_cast<off_t>(line * kLineBytes)) ==
             static_cast<ssize_t>(text.size());
}

}  // namespace muster::worker
