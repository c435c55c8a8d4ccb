#include "coordinator/log_stream_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <vector>

#include "common/crc32c.h"
#include "common/status.h"
#include "common/strings.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

// Data this close to the end may not have been synced before a crash: its checksums are verified.
constexpr uint64_t kVerifiedTailBytes = 8 << 20;
// Pieces received this close together share an index record.
constexpr int64_t kMergedMarksUs = 1'000;

absl::Status WriteAt(int fd, std::string_view bytes, uint64_t offset, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return common::ErrnoStatus(StrCat("cannot write ", path));
    bytes.remove_prefix(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return absl::OkStatus();
}

bool ReadAt(int fd, uint64_t offset, size_t size, std::string* bytes) {
  bytes->resize(size);
  size_t have = 0;
  while (have < size) {
    const ssize_t count =
        pread(fd, bytes->data() + have, size - have, static_cast<off_t>(offset + have));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    have += static_cast<size_t>(count);
  }
  return true;
}

struct Piece {
  size_t begin = 0;
  size_t end = 0;
  int64_t time_us = 0;
};

// The chunk's data from `skip` on, cut where the receive time changes.
std::vector<Piece> PiecesOf(const v1::LogChunk& chunk, size_t skip) {
  std::vector<Piece> pieces;
  size_t begin = 0;
  int64_t time_us = chunk.marks().empty() ? chunk.time_us() : chunk.marks(0).time_us();
  const auto add = [&](size_t end) {
    if (end > std::max(begin, skip)) pieces.push_back({std::max(begin, skip), end, time_us});
    begin = end;
  };
  for (const v1::LogMark& mark : chunk.marks()) {
    const size_t position = std::min<size_t>(mark.position(), chunk.data().size());
    if (mark.time_us() - time_us < kMergedMarksUs && mark.time_us() >= time_us) continue;
    add(position);
    time_us = mark.time_us();
  }
  add(chunk.data().size());
  return pieces;
}

}  // namespace

absl::StatusOr<LogStreamFile> LogStreamFile::Open(const Paths& paths, const LogKey& key) {
  LogStreamFile file;
  RETURN_IF_ERROR(common::MakeDirectories(paths.LogDirectory(key.job, key.attempt)));
  file.path_ = paths.LogFile(key.job, key.attempt, key.rank, key.stream);
  const std::string index_path = paths.LogIndex(key.job, key.attempt, key.rank, key.stream);
  file.data_ = common::UniqueFd(open(file.path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.data_.valid()) return common::ErrnoStatus(StrCat("cannot open ", file.path_));
  file.index_ = common::UniqueFd(open(index_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.index_.valid()) return common::ErrnoStatus(StrCat("cannot open ", index_path));
  RETURN_IF_ERROR(file.Recover(index_path));
  return file;
}

absl::Status LogStreamFile::Recover(const std::string& index_path) {
  ASSIGN_OR_RETURN(const std::string index, common::ReadFile(index_path, SIZE_MAX));
  std::vector<LogIndexRecord> records;
  for (size_t at = 0; at + kLogIndexRecordBytes <= index.size(); at += kLogIndexRecordBytes) {
    const auto record =
        DecodeLogIndexRecord(std::string_view(index).substr(at, kLogIndexRecordBytes));
    const uint64_t expected = records.empty() ? 0 : records.back().offset + records.back().length;
    if (!record.has_value() || record->offset != expected + record->dropped) break;
    records.push_back(*record);
  }
  const uint64_t claimed = records.empty() ? 0 : records.back().offset + records.back().length;
  std::string bytes;
  for (size_t i = 0; i < records.size(); ++i) {
    const LogIndexRecord& record = records[i];
    if (record.offset + record.length + kVerifiedTailBytes < claimed) continue;
    if (ReadAt(data_.get(), record.offset, record.length, &bytes) &&
        common::Crc32c(bytes) == record.data_crc) {
      continue;
    }
    records.resize(i);
    break;
  }
  written_ = records.empty() ? 0 : records.back().offset + records.back().length;
  ended_ = !records.empty() && records.back().end;
  index_bytes_ = records.size() * kLogIndexRecordBytes;
  if (ftruncate(index_.get(), static_cast<off_t>(index_bytes_)) != 0 ||
      ftruncate(data_.get(), static_cast<off_t>(written_)) != 0) {
    return common::ErrnoStatus(StrCat("cannot cut the torn end of ", path_));
  }
  // What was read back may still only be in the page cache; a sync makes it a promise again.
  dirty_ = true;
  return absl::OkStatus();
}

absl::Status LogStreamFile::Append(const v1::LogChunk& chunk) {
  const uint64_t end = chunk.offset() + chunk.data().size();
  if (ended_ || (end <= written_ && !(chunk.end() && end == written_))) return absl::OkStatus();
  uint64_t dropped = 0;
  size_t skip = 0;
  if (chunk.offset() > written_) {
    dropped = chunk.offset() - written_;
    if (chunk.dropped() < dropped) return absl::OkStatus();
  } else {
    skip = static_cast<size_t>(written_ - chunk.offset());
  }
  const std::string_view data = chunk.data();
  RETURN_IF_ERROR(WriteAt(data_.get(), data.substr(skip), chunk.offset() + skip, path_));
  std::string records;
  for (const Piece& piece : PiecesOf(chunk, skip)) {
    const std::string_view bytes = data.substr(piece.begin, piece.end - piece.begin);
    records += EncodeLogIndexRecord({.offset = chunk.offset() + piece.begin,
                                     .dropped = dropped,
                                     .time_us = piece.time_us,
                                     .length = static_cast<uint32_t>(bytes.size()),
                                     .data_crc = common::Crc32c(bytes),
                                     .end = chunk.end() && piece.end == data.size()});
    dropped = 0;
  }
  // Without bytes of its own: the end, or a gap that nothing follows yet. A gap must not go without
  // a record, or all that comes behind it is cut off as torn at the next start.
  if (skip == data.size() && (chunk.end() || dropped > 0)) {
    records += EncodeLogIndexRecord({.offset = end,
                                     .dropped = dropped,
                                     .time_us = chunk.time_us(),
                                     .length = 0,
                                     .data_crc = common::Crc32c({}),
                                     .end = chunk.end()});
  }
  RETURN_IF_ERROR(WriteAt(index_.get(), records, index_bytes_, path_ + ".idx"));
  index_bytes_ += records.size();
  written_ = end;
  ended_ = chunk.end();
  dirty_ = true;
  return absl::OkStatus();
}

absl::Status LogStreamFile::Sync() {
  // Data first: an index record must never promise bytes that a power cut can take.
  if (fdatasync(data_.get()) != 0 || fdatasync(index_.get()) != 0) {
    return common::ErrnoStatus(StrCat("cannot sync ", path_));
  }
  MarkSynced();
  return absl::OkStatus();
}

void LogStreamFile::MarkSynced() {
  durable_ = written_;
  dirty_ = false;
}

}  // namespace muster::coordinator
