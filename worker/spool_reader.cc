// spool_reader: walks the index, reads each piece of the file once.
#include "worker/spool_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/status.h"
#include "common/strings.h"

namespace muster::worker {
namespace {

using common::SpoolRecord;
constexpr size_t kRecordsPerRead = 128;
constexpr size_t kMarksMax = 4096;  // of one piece

bool Trimmed(const SpoolRecord& record) {
  return record.offset == 0 && record.length == 0 && record.time_us == 0 && record.dropped == 0;
}

}  // namespace

bool SpoolReader::Open() {
  if (index_.valid()) return true;
  common::UniqueFd data(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  common::UniqueFd index(open((path_ + ".idx").c_str(), O_RDONLY | O_CLOEXEC));
  if (!data.valid() || !index.valid()) return false;
  data_ = std::move(data);
  index_ = std::move(index);
  // What was trimmed is a hole: begin behind it.
  const off_t first = lseek(index_.get(), 0, SEEK_DATA);
  if (first > 0) place_.record = std::max<uint64_t>(place_.record, first / sizeof(SpoolRecord));
  return true;
}

bool SpoolReader::Load(uint64_t number, SpoolRecord* record) {
  if (number < cached_first_ || number >= cached_first_ + cached_.size()) {
    cached_.resize(kRecordsPerRead);
    const ssize_t count = pread(index_.get(), cached_.data(), kRecordsPerRead * sizeof(SpoolRecord),
                                static_cast<off_t>(number * sizeof(SpoolRecord)));
    cached_first_ = number;
    cached_.resize(count > 0 ? static_cast<size_t>(count) / sizeof(SpoolRecord) : 0);
    if (cached_.empty()) return false;
  }
  *record = cached_[number - cached_first_];
  return true;
}

uint64_t SpoolReader::End() {
  if (!Open()) return 0;
  struct stat info {};
  if (fstat(index_.get(), &info) != 0) return place_.offset;
  const uint64_t records = static_cast<uint64_t>(info.st_size) / sizeof(SpoolRecord);
  if (records == 0) return 0;
  SpoolRecord last{};
  if (pread(index_.get(), &last, sizeof last,
            static_cast<off_t>((records - 1) * sizeof(SpoolRecord))) != sizeof last) {
    return place_.offset;
  }
  return last.offset + last.length;
}

uint64_t SpoolReader::Available() {
  const uint64_t end = End();
  return end > place_.offset ? end - place_.offset : 0;
}

absl::StatusOr<SpoolPiece> SpoolReader::Next(size_t max_bytes) {
  SpoolPiece piece;
  piece.offset = place_.offset;
  if (!Open()) return piece;
  uint64_t size = 0;
  SpoolRecord record{};
  while (size < max_bytes && piece.marks.size() < kMarksMax && Load(place_.record, &record)) {
    const uint64_t end = record.offset + record.length;
    if (Trimmed(record) || (end <= place_.offset && record.length > 0)) {
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
  piece.data.resize(size);
  size_t done = 0;
  while (done < size) {
    const ssize_t count = pread(data_.get(), piece.data.data() + done, size - done,
                                static_cast<off_t>(piece.offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return common::ErrnoStatus(common::StrCat("cannot read ", path_));
    if (count == 0) {
      return absl::DataLossError(
          common::StrCat(path_, " ends at ", piece.offset + done, ", its index promises more"));
    }
    done += static_cast<size_t>(count);
  }
  return piece;
}

}  // namespace muster::worker
