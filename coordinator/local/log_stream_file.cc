#include "coordinator/local/log_stream_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "common/crc32c.h"
#include "common/status.h"
#include "common/strings.h"
#include "coordinator/stores/log_pieces.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

// Data this close to the end may not have been synced before a crash: its checksums are verified.
constexpr uint64_t kVerifiedTailBytes = 8 << 20;
constexpr uint64_t kRecordsPerRead = 1'024;

absl::Status WriteAt(int fd, std::string_view bytes, uint64_t offset, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EFBIG || errno == EINVAL)) {
      return absl::OutOfRangeError(
          StrCat(path, " cannot have bytes at offset ", offset, ": ", std::strerror(errno)));
    }
    if (count < 0) return common::ErrnoStatus(StrCat("cannot write ", path));
    bytes.remove_prefix(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
  return absl::OkStatus();
}

// Hands over the records of an index from number `from` on, until one is not whole or `each` says
// false.
template <typename Each>
absl::Status ForEachRecord(int index, const std::string& path, uint64_t from, Each each) {
  while (true) {
    ASSIGN_OR_RETURN(const std::string bytes,
                     common::ReadAt(index, from * kLogIndexRecordBytes,
                                    kRecordsPerRead * kLogIndexRecordBytes, path));
    for (size_t at = 0; at + kLogIndexRecordBytes <= bytes.size(); at += kLogIndexRecordBytes) {
      const auto record =
          DecodeLogIndexRecord(std::string_view(bytes).substr(at, kLogIndexRecordBytes));
      if (!record.has_value() || !each(*record)) return absl::OkStatus();
    }
    if (bytes.size() < kRecordsPerRead * kLogIndexRecordBytes) return absl::OkStatus();
    from += kRecordsPerRead;
  }
}

uint64_t EndOf(const LogPiece& piece) { return piece.offset + piece.length; }

}  // namespace

absl::StatusOr<LogStreamFile> LogStreamFile::Open(const Paths& paths, const LogKey& key) {
  LogStreamFile file;
  RETURN_IF_ERROR(common::MakeDirectories(paths.LogDirectory(key.job, key.attempt)));
  file.path_ = paths.LogFile(key.job, key.attempt, key.rank, key.stream);
  file.index_path_ = paths.LogIndex(key.job, key.attempt, key.rank, key.stream);
  RETURN_IF_ERROR(file.OpenFiles(O_CREAT));
  RETURN_IF_ERROR(file.Recover());
  return file;
}

void LogStreamFile::Close() {
  data_.Reset();
  index_.Reset();
}

absl::Status LogStreamFile::Reopen() { return OpenFiles(0); }

absl::Status LogStreamFile::OpenFiles(int flags) {
  data_ = common::UniqueFd(open(path_.c_str(), O_RDWR | O_CLOEXEC | flags, 0600));
  if (!data_.valid()) return common::ErrnoStatus(StrCat("cannot open ", path_));
  index_ = common::UniqueFd(open(index_path_.c_str(), O_RDWR | O_CLOEXEC | flags, 0600));
  if (index_.valid()) return absl::OkStatus();
  const absl::Status status = common::ErrnoStatus(StrCat("cannot open ", index_path_));
  data_.Reset();
  return status;
}

absl::Status LogStreamFile::Recover() {
  ASSIGN_OR_RETURN(const uint64_t chained, ChainedRecords());
  ASSIGN_OR_RETURN(const uint64_t sound, SoundRecords(chained));
  RETURN_IF_ERROR(CutTo(sound));
  // What was read back may still only be in the page cache; a sync makes it a promise again.
  dirty_ = true;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> LogStreamFile::ChainedRecords() {
  uint64_t records = 0;
  written_ = 0;
  RETURN_IF_ERROR(ForEachRecord(index_.get(), index_path_, 0, [&](const LogIndexRecord& record) {
    if (record.offset != written_ + record.dropped) return false;
    written_ = EndOf(record);
    ++records;
    return true;
  }));
  return records;
}

absl::StatusOr<uint64_t> LogStreamFile::SoundRecords(uint64_t chained) {
  const uint64_t claimed = written_;
  const auto is_far = [&](const LogIndexRecord& record) {
    return EndOf(record) + kVerifiedTailBytes < claimed;
  };
  // Back to where the part begins that may be torn.
  uint64_t first = chained;
  bool found = false;
  while (first > 0 && !found) {
    first -= std::min(first, kRecordsPerRead);
    RETURN_IF_ERROR(
        ForEachRecord(index_.get(), index_path_, first, [&](const LogIndexRecord& record) {
          found = is_far(record);
          return false;
        }));
  }
  uint64_t number = first;
  absl::Status status;
  RETURN_IF_ERROR(
      ForEachRecord(index_.get(), index_path_, first, [&](const LogIndexRecord& record) {
        if (number == chained) return false;
        if (!is_far(record)) {
          const auto bytes = common::ReadAt(data_.get(), record.offset, record.length, path_);
          status = bytes.status();
          if (!bytes.ok() || bytes->size() != record.length ||
              common::Crc32c(*bytes) != record.data_crc) {
            return false;
          }
        }
        ++number;
        return true;
      }));
  RETURN_IF_ERROR(status);
  return number;
}

absl::Status LogStreamFile::CutTo(uint64_t records) {
  index_bytes_ = records * kLogIndexRecordBytes;
  written_ = 0;
  ended_ = false;
  if (records > 0) {
    RETURN_IF_ERROR(
        ForEachRecord(index_.get(), index_path_, records - 1, [&](const LogIndexRecord& record) {
          written_ = EndOf(record);
          ended_ = record.end;
          return false;
        }));
  }
  struct stat info {};
  if (fstat(data_.get(), &info) != 0) return common::ErrnoStatus(StrCat("cannot use ", path_));
  // Only ever shorter: behind a gap at the end there are no bytes yet.
  const bool is_longer = static_cast<uint64_t>(info.st_size) > written_;
  if (ftruncate(index_.get(), static_cast<off_t>(index_bytes_)) != 0 ||
      (is_longer && ftruncate(data_.get(), static_cast<off_t>(written_)) != 0)) {
    return common::ErrnoStatus(StrCat("cannot cut the torn end of ", path_));
  }
  return absl::OkStatus();
}

absl::Status LogStreamFile::Append(const v1::LogChunk& chunk) {
  const std::vector<LogPiece> pieces =
      ended_ ? std::vector<LogPiece>() : NewPieces(chunk, written_);
  if (pieces.empty()) return absl::OkStatus();
  const uint64_t begin = pieces.front().offset;
  RETURN_IF_ERROR(WriteAt(
      data_.get(), std::string_view(chunk.data()).substr(begin - chunk.offset()), begin, path_));
  std::string records;
  for (const LogPiece& piece : pieces) {
    records += EncodeLogIndexRecord(piece, common::Crc32c(BytesOf(chunk, piece)));
  }
  RETURN_IF_ERROR(WriteAt(index_.get(), records, index_bytes_, index_path_));
  index_bytes_ += records.size();
  written_ = EndOf(pieces.back());
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
