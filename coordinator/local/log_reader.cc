#include "coordinator/local/log_reader.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/files.h"
#include "common/status.h"
#include "common/strings.h"
#include "coordinator/local/log_format.h"

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
  return common::ReadAt(fd.get(), offset, size, path);
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

// "rank-3.stderr" → (3, stderr).
bool ParseName(absl::string_view name, LogKey* key) {
  if (!absl::ConsumePrefix(&name, "rank-")) return false;
  key->stream = v1::LOG_STREAM_STDOUT;
  if (absl::ConsumeSuffix(&name, ".stderr")) {
    key->stream = v1::LOG_STREAM_STDERR;
  } else if (!absl::ConsumeSuffix(&name, ".stdout")) {
    return false;
  }
  return absl::SimpleAtoi(name, &key->rank);
}

// The directory's entries; none when there is no such directory.
absl::StatusOr<std::vector<std::string>> ListIfThere(const std::string& directory) {
  absl::StatusOr<std::vector<std::string>> names = common::ListDirectory(directory);
  if (absl::IsNotFound(names.status())) return std::vector<std::string>();
  return names;
}

class LocalLogCursor final : public LogCursor {
 public:
  LocalLogCursor(std::string data_path, std::string index_path, uint64_t offset)
      : data_path_(std::move(data_path)), index_path_(std::move(index_path)), from_(offset) {
    if (offset == 0) next_record_ = 0;
  }

  absl::StatusOr<std::optional<LogPiece>> Peek() override;
  absl::StatusOr<std::string> Read(const LogPiece& piece) const override;
  void Advance() override;
  bool Ended() const override { return ended_; }

 private:
  absl::Status Fill();

  const std::string data_path_;
  const std::string index_path_;
  uint64_t from_ = 0;
  std::optional<uint64_t> next_record_;  // of the index file, to be read; none: not looked up yet
  std::deque<LogPiece> buffered_;
  bool ended_ = false;
};

absl::Status LocalLogCursor::Fill() {
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

absl::StatusOr<std::optional<LogPiece>> LocalLogCursor::Peek() {
  while (true) {
    if (buffered_.empty()) RETURN_IF_ERROR(Fill());
    if (buffered_.empty()) return std::nullopt;
    LogPiece& piece = buffered_.front();
    const uint64_t end = piece.offset + piece.length;
    if (end <= from_ && end != 0 && !piece.end) {
      buffered_.pop_front();
      continue;
    }
    if (piece.offset < from_) {
      const uint64_t skip = std::min<uint64_t>(from_ - piece.offset, piece.length);
      piece.offset += skip;
      piece.length -= static_cast<uint32_t>(skip);
      piece.dropped = 0;
    }
    return piece;
  }
}

absl::StatusOr<std::string> LocalLogCursor::Read(const LogPiece& piece) const {
  if (piece.length == 0) return std::string();
  return ReadRange(data_path_, piece.offset, piece.length);
}

void LocalLogCursor::Advance() {
  if (buffered_.empty()) return;
  const LogPiece& piece = buffered_.front();
  if (piece.end) ended_ = true;
  from_ = piece.offset + piece.length;
  buffered_.pop_front();
}

}  // namespace

absl::Status LocalLogReader::AddStreamsOf(uint64_t job, uint32_t attempt,
                                          std::vector<LogKey>& keys) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   ListIfThere(paths_.LogDirectory(job, attempt)));
  LogKey key{.job = job, .attempt = attempt};
  for (const std::string& name : names) {
    if (ParseName(name, &key)) keys.push_back(key);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<LogKey>> LocalLogReader::Streams(uint64_t job,
                                                            std::optional<uint32_t> only) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListIfThere(paths_.LogDirectory(job)));
  std::vector<LogKey> keys;
  for (const std::string& name : names) {
    uint32_t attempt = 0;
    if (!absl::SimpleAtoi(name, &attempt) || attempt != only.value_or(attempt)) continue;
    RETURN_IF_ERROR(AddStreamsOf(job, attempt, keys));
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::unique_ptr<LogCursor> LocalLogReader::Open(const LogKey& key, uint64_t offset) const {
  return std::make_unique<LocalLogCursor>(
      paths_.LogFile(key.job, key.attempt, key.rank, key.stream),
      paths_.LogIndex(key.job, key.attempt, key.rank, key.stream), offset);
}

absl::StatusOr<uint64_t> LocalLogReader::OffsetOfLastLines(const LogKey& key,
                                                           uint64_t lines) const {
  const std::string data_path = paths_.LogFile(key.job, key.attempt, key.rank, key.stream);
  const std::string index_path = paths_.LogIndex(key.job, key.attempt, key.rank, key.stream);
  uint64_t found = 0;
  bool at_end = true;
  for (uint64_t number = RecordsIn(index_path); number > 0; --number) {
    ASSIGN_OR_RETURN(const auto record, RecordAt(index_path, number - 1));
    if (!record.has_value() || record->length == 0) continue;
    ASSIGN_OR_RETURN(const std::string bytes, ReadRange(data_path, record->offset, record->length));
    for (size_t i = bytes.size(); i > 0; --i) {
      // The newline that ends the last line begins no line of its own.
      if (bytes[i - 1] == '\n' && !at_end && ++found == lines) return record->offset + i;
      at_end = false;
    }
  }
  return 0;
}

}  // namespace muster::coordinator
