// spool_reader: walks the index, reads each piece of the file once.
#include "worker/output/spool_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace {

using common::SpoolRecord;
constexpr size_t kRecordsPerRead = 128;
constexpr size_t kRecordsPerPiece = 16'384;  // read per piece, even if none of them has a byte
constexpr size_t kMarksMax = 4096;           // per piece

bool Trimmed(const SpoolRecord& record) {
  return record.offset == 0 && record.length == 0 && record.time_us == 0 && record.dropped == 0;
}

// True if sums of its fields do not overflow and a stream could contain it.
bool Plausible(const SpoolRecord& record) {
  return record.offset <= common::kLogStreamBytesMax && record.dropped <= record.offset &&
         record.length <= common::kLogStreamBytesMax - record.offset;
}

uint64_t SizeOf(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

}  // namespace

void SpoolReader::Seek(SpoolPlace place) {
  place_ = place;
  checked_records_ = checked_end_ = 0;
}

void SpoolReader::Close() {
  data_.Reset();
  index_.Reset();
}

absl::StatusOr<bool> SpoolReader::Open() {
  if (index_.valid()) return true;
  absl::StatusOr<common::UniqueFd> data = common::OpenRegular(path_, O_RDONLY | O_NOFOLLOW);
  absl::StatusOr<common::UniqueFd> index =
      common::OpenRegular(path_ + ".idx", O_RDONLY | O_NOFOLLOW);
  for (const auto* file : {&data, &index}) {
    if (absl::IsNotFound(file->status())) return false;
    RETURN_IF_ERROR(file->status());
  }
  data_ = *std::move(data);
  index_ = *std::move(index);
  // The trimmed part is a hole: start after it.
  const off_t first = lseek(index_.get(), 0, SEEK_DATA);
  if (first > 0) place_.record = std::max<uint64_t>(place_.record, first / sizeof(SpoolRecord));
  return true;
}

absl::StatusOr<bool> SpoolReader::Load(uint64_t number, SpoolRecord* record) {
  if (number < cached_first_ || number >= cached_first_ + cached_.size()) {
    cached_.resize(kRecordsPerRead);
    const ssize_t count = pread(index_.get(), cached_.data(), kRecordsPerRead * sizeof(SpoolRecord),
                                static_cast<off_t>(number * sizeof(SpoolRecord)));
    const absl::Status read =
        count < 0 ? common::ErrnoStatus(common::StrCat("cannot read ", path_, ".idx"))
                  : absl::OkStatus();
    cached_first_ = number;
    cached_.resize(count > 0 ? static_cast<size_t>(count) / sizeof(SpoolRecord) : 0);
    RETURN_IF_ERROR(read);
    if (cached_.empty()) return false;
  }
  *record = cached_[number - cached_first_];
  return true;
}

absl::Status SpoolReader::Check(const SpoolRecord& record) {
  const bool seen = place_.record < checked_records_;  // part of it was taken
  const uint64_t end = Plausible(record) ? record.offset + record.length : 0;
  if (record.length > 0 && end > data_size_) data_size_ = SizeOf(data_.get());
  const char* wrong = nullptr;
  if (!Plausible(record)) {
    wrong = "is beyond what a stream may hold";
  } else if (!seen && record.offset < checked_end_) {
    wrong = "starts before the previous one ends";
  } else if (record.length > 0 && end > data_size_) {
    wrong = "claims more bytes than there are";
  }
  if (wrong != nullptr) {
    return absl::DataLossError(common::StrCat("record ", place_.record, " of ", path_,
                                              ".idx (offset ", record.offset, ", length ",
                                              record.length, ", dropped ", record.dropped, ") ",
                                              wrong, "; something other than Muster wrote it"));
  }
  checked_records_ = place_.record + 1;
  checked_end_ = end;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> SpoolReader::End() {
  ASSIGN_OR_RETURN(const bool open, Open());
  if (!open) return 0;
  const uint64_t records = SizeOf(index_.get()) / sizeof(SpoolRecord);
  SpoolRecord last{};
  if (records == 0) return 0;
  const ssize_t count = pread(index_.get(), &last, sizeof last,
                              static_cast<off_t>((records - 1) * sizeof(SpoolRecord)));
  if (count < 0) return common::ErrnoStatus(common::StrCat("cannot read ", path_, ".idx"));
  if (count != sizeof last) return place_.offset;
  return Plausible(last) ? last.offset + last.length : common::kLogStreamBytesMax;
}

absl::StatusOr<uint64_t> SpoolReader::Available() {
  ASSIGN_OR_RETURN(const uint64_t end, End());
  return end > place_.offset ? end - place_.offset : 0;
}

bool SpoolReader::SkipHole() {
  const off_t at = static_cast<off_t>(place_.record * sizeof(SpoolRecord));
  const off_t next = lseek(index_.get(), at, SEEK_DATA);
  if (next < 0) return false;  // a hole up to the end
  place_.record = std::max<uint64_t>(place_.record + 1, next / sizeof(SpoolRecord));
  return true;
}

absl::StatusOr<SpoolPiece> SpoolReader::Next(size_t max_bytes) {
  const SpoolPlace before = place_;
  absl::StatusOr<SpoolPiece> piece = Take(max_bytes);
  if (!piece.ok()) place_ = before;
  return piece;
}

absl::StatusOr<SpoolPiece> SpoolReader::Take(size_t max_bytes) {
  SpoolPiece piece;
  piece.offset = place_.offset;
  ASSIGN_OR_RETURN(const bool open, Open());
  if (!open) return piece;
  uint64_t size = 0;
  size_t looked_at = 0;
  SpoolRecord record{};
  while (size < max_bytes && piece.marks.size() < kMarksMax) {
    ASSIGN_OR_RETURN(const bool is_there, Load(place_.record, &record));
    if (!is_there) break;
    if (++looked_at > kRecordsPerPiece) {
      piece.more = true;
      break;
    }
    if (Trimmed(record)) {
      if (!SkipHole()) break;
      continue;
    }
    if (absl::Status checked = Check(record); !checked.ok()) {
      if (size > 0 || piece.dropped > 0) break;  // deliver what was valid first
      return checked;
    }
    const uint64_t end = record.offset + record.length;
    if (end <= place_.offset && record.length > 0) {
      ++place_.record;
      continue;
    }
    if (record.offset > place_.offset) {  // a gap: output was dropped
      if (size > 0) break;
      piece.dropped += record.offset - place_.offset;
      piece.offset = place_.offset = record.offset;
    }
    const uint64_t take = std::min<uint64_t>(end - std::min(end, place_.offset), max_bytes - size);
    if (take > 0) piece.marks.emplace_back(static_cast<uint32_t>(size), record.time_us);
    size += take;
    place_.offset += take;
    if (place_.offset >= end) ++place_.record;
  }
  RETURN_IF_ERROR(ReadBytes(&piece, size));
  return piece;
}

absl::Status SpoolReader::ReadBytes(SpoolPiece* piece, uint64_t size) {
  piece->data.resize(size);
  size_t done = 0;
  while (done < size) {
    const ssize_t count = pread(data_.get(), piece->data.data() + done, size - done,
                                static_cast<off_t>(piece->offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return common::ErrnoStatus(common::StrCat("cannot read ", path_));
    if (count == 0) {
      return absl::DataLossError(
          common::StrCat(path_, " ends at ", piece->offset + done, ", but its index claims more"));
    }
    done += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

}  // namespace muster::worker
