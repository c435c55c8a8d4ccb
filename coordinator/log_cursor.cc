#include "coordinator/log_cursor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "common/files.h"
#include "common/status.h"
#include "common/strings.h"

namespace muster::coordinator {
namespace {

constexpr uint64_t kRecordsPerRead = 256;

// What is there of the range; nothing when the file is gone.
absl::StatusOr<std::string> ReadRange(const std::string& path, uint64_t offset, uint64_t size) {
  common::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    const absl::Status status = common::ErrnoStatus(common::StrCat("cannot open ", path));
    if (absl::IsNotFound(status)) return std::string();
    return status;
  }
  std::string bytes(size, '\0');
  size_t have = 0;
  while (have < size) {
    const ssize_t count =
        pread(fd.get(), bytes.data() + have, size - have, static_cast<off_t>(offset + have));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return common::ErrnoStatus(common::StrCat("cannot read ", path));
    if (count == 0) break;
    have += static_cast<size_t>(count);
  }
  bytes.resize(have);
  return bytes;
}

uint64_t RecordsIn(const std::string& index_path) {
  struct stat info {};
  if (stat(index_path.c_str(), &info) != 0) return 0;
  return static_cast<uint64_t>(info.st_size) / kLogIndexRecordBytes;
}

absl::StatusOr<std::optional<LogIndexRecord>> RecordAt(const std::string& index_path,
                                                       uint64_t number) {
  ASSIGN_OR_RETURN(const std::string bytes,
                   ReadRange(index_path, number * kLogIndexRecordBytes, kLogIndexRecordBytes));
  return DecodeLogIndexRecord(bytes);
}

// The first record that ends behind `offset`, by bisection.
absl::StatusOr<uint64_t> RecordBehind(const std::string& index_path, uint64_t offset) {
  uint64_t low = 0;
  uint64_t high = RecordsIn(index_path);
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    ASSIGN_OR_RETURN(const auto record, RecordAt(index_path, middle));
    if (record.has_value() && record->offset + record->length <= offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace

LogCursor::LogCursor(const Paths& paths, const LogKey& key, uint64_t offset)
    : key_(key),
      data_path_(paths.LogFile(key.job, key.attempt, key.rank, key.stream)),
      index_path_(paths.LogIndex(key.job, key.attempt, key.rank, key.stream)),
      from_(offset) {
  if (offset == 0) next_record_ = 0;
}

absl::Status LogCursor::Fill() {
  if (!next_record_.has_value()) {
    ASSIGN_OR_RETURN(const uint64_t behind, RecordBehind(index_path_, from_));
    // The end mark may stand in a record without bytes that lies exactly at the offset.
    next_record_ = behind > 0 ? behind - 1 : 0;
  }
  ASSIGN_OR_RETURN(const std::string bytes,
                   ReadRange(index_path_, *next_record_ * kLogIndexRecordBytes,
                             kRecordsPerRead * kLogIndexRecordBytes));
  for (size_t at = 0; at + kLogIndexRecordBytes <= bytes.size(); at += kLogIndexRecordBytes) {
    const auto record =
        DecodeLogIndexRecord(std::string_view(bytes).substr(at, kLogIndexRecordBytes));
    if (!record.has_value()) return absl::OkStatus();
    buffered_.push_back(*record);
    ++*next_record_;
  }
  return absl::OkStatus();
}

std::optional<LogIndexRecord> LogCursor::Peek() {
  while (true) {
    if (buffered_.empty()) trouble_ = Fill();
    if (buffered_.empty()) return std::nullopt;
    LogIndexRecord& record = buffered_.front();
    const uint64_t end = record.offset + record.length;
    if (end <= from_ && end != 0 && !record.end) {
      buffered_.pop_front();
      continue;
    }
    if (record.offset < from_) {
      const uint64_t skip = std::min<uint64_t>(from_ - record.offset, record.length);
      record.offset += skip;
      record.length -= static_cast<uint32_t>(skip);
      record.dropped = 0;
    }
    return record;
  }
}

absl::StatusOr<std::string> LogCursor::Read(const LogIndexRecord& piece) const {
  if (piece.length == 0) return std::string();
  return ReadRange(data_path_, piece.offset, piece.length);
}

void LogCursor::Advance() {
  if (buffered_.empty()) return;
  const LogIndexRecord& record = buffered_.front();
  if (record.end) ended_ = true;
  from_ = record.offset + record.length;
  buffered_.pop_front();
}

absl::StatusOr<uint64_t> LogCursor::OffsetOfLastLines(uint64_t lines) const {
  uint64_t found = 0;
  bool at_end = true;
  for (uint64_t number = RecordsIn(index_path_); number > 0; --number) {
    ASSIGN_OR_RETURN(const auto record, RecordAt(index_path_, number - 1));
    if (!record.has_value() || record->length == 0) continue;
    ASSIGN_OR_RETURN(const std::string bytes,
                     ReadRange(data_path_, record->offset, record->length));
    for (size_t i = bytes.size(); i > 0; --i) {
      // The newline that ends the last line begins no line of its own.
      if (bytes[i - 1] == '\n' && !at_end && ++found == lines) return record->offset + i;
      at_end = false;
    }
  }
  return 0;
}

}  // namespace muster::coordinator
