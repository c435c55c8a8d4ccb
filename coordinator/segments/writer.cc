#include "coordinator/segments/writer.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/hash/crc32c.h"
#include "common/text/strings.h"
#include "coordinator/segments/scan.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr size_t kRecoveryWindowBytes = 1 << 20;

// Writes all pieces one after the other, starting at `position`.
absl::Status WriteAt(int fd, std::vector<iovec> pieces, uint64_t position,
                     const std::string& path) {
  size_t at = 0;
  while (at < pieces.size()) {
    const int count = static_cast<int>(std::min<size_t>(pieces.size() - at, IOV_MAX));
    const ssize_t wrote = pwritev(fd, &pieces[at], count, static_cast<off_t>(position));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && (errno == EFBIG || errno == EINVAL)) {
      return absl::OutOfRangeError(
          StrCat(path, " cannot be written at offset ", position, ": ", std::strerror(errno)));
    }
    if (wrote < 0) return common::ErrnoStatus(StrCat("cannot write ", path));
    position += static_cast<uint64_t>(wrote);
    size_t left = static_cast<size_t>(wrote);
    for (; at < pieces.size() && left >= pieces[at].iov_len; ++at) left -= pieces[at].iov_len;
    if (left > 0) {
      pieces[at].iov_base = static_cast<char*>(pieces[at].iov_base) + left;
      pieces[at].iov_len -= left;
    }
  }
  return absl::OkStatus();
}

iovec PieceOf(std::string_view bytes) { return {const_cast<char*>(bytes.data()), bytes.size()}; }

uint64_t ItemsIn(SegmentKind kind, std::string_view body) {
  if (kind == SegmentKind::kMetrics) return 1;
  return static_cast<uint64_t>(std::count(body.begin(), body.end(), '\n'));
}

std::string HeadCopies(const SegmentHead& head) {
  std::string bytes;
  for (size_t copy = 0; copy < kHeadCopies; ++copy) bytes += EncodeSegmentHead(head);
  return bytes;
}

}  // namespace

absl::StatusOr<SegmentWriter> SegmentWriter::Open(SegmentFiles files, const SegmentId& id) {
  SegmentWriter writer;
  writer.files_ = std::move(files);
  writer.head_.id = id;
  ASSIGN_OR_RETURN(const std::vector<uint64_t> segments, writer.files_.List());
  if (segments.empty()) {
    RETURN_IF_ERROR(writer.Start(0));
  } else {
    RETURN_IF_ERROR(writer.Recover(segments.back()));
  }
  return writer;
}

absl::Status SegmentWriter::Reopen() {
  RETURN_IF_ERROR(OpenFile(0));
  if (!has_failed_) return absl::OkStatus();
  fd_.Reset();
  return Restore({}, 0);
}

void SegmentWriter::Fail() {
  fd_.Reset();
  GoBackTo(synced_);
  dirty_ = false;
  has_failed_ = true;
}

void SegmentWriter::GoBackTo(const State& state) {
  position_ = state.position;
  index_.resize(state.entries);
  end_ = state.end;
  finished_ = state.finished;
}

absl::Status SegmentWriter::OpenFile(int flags) {
  ASSIGN_OR_RETURN(fd_, common::OpenRegular(Path(), O_RDWR | O_NOFOLLOW | flags));
  return absl::OkStatus();
}

absl::Status SegmentWriter::Start(uint64_t first_offset) {
  head_.first_offset = first_offset;
  head_.first_count = end_.end_count;
  ASSIGN_OR_RETURN(head_.salt, RandomSalt());
  RETURN_IF_ERROR(OpenFile(O_CREAT | O_TRUNC));
  const std::string head = HeadCopies(head_);
  RETURN_IF_ERROR(WriteAt(fd_.get(), {PieceOf(head)}, 0, Path()));
  position_ = head.size();
  index_.clear();
  end_ = {.end_offset = first_offset, .end_count = head_.first_count};
  finished_ = false;
  dirty_ = true;
  synced_ = Now();
  return absl::OkStatus();
}

absl::Status SegmentWriter::Recover(uint64_t first_offset) {
  head_.first_offset = first_offset;
  SegmentScan scan(files_.Open(head_.first_offset), kRecoveryWindowBytes);
  ASSIGN_OR_RETURN(const auto head, scan.Head());
  const bool is_ours = head.has_value() && head->id == head_.id &&
                       head->first_offset == first_offset &&
                       scan.TotalBytes() <= kSegmentFileBytesMax;
  if (!is_ours) {
    ASSIGN_OR_RETURN(end_.end_count, CountBefore(first_offset));
    // None of it can be read. A file that is longer than a head is kept for inspection.
    const std::string aside = StrCat(Path(), ".damaged");
    if (scan.TotalBytes() > kRecordsBegin && std::rename(Path().c_str(), aside.c_str()) != 0) {
      return common::ErrnoStatus(StrCat("cannot set ", Path(), " aside"));
    }
    return Start(first_offset);
  }
  head_ = *head;
  ASSIGN_OR_RETURN(const auto trailer, scan.Trailer());
  end_ = {.end_offset = first_offset, .end_count = head_.first_count};
  position_ = kRecordsBegin;
  while (true) {
    ASSIGN_OR_RETURN(const auto sound, scan.NextSound());
    if (!sound.has_value()) break;
    const auto& [record, body] = *sound;
    // Skipped bytes are lost if a sound record follows them; otherwise they are a torn end.
    const uint64_t gap = record.offset - end_.end_offset;
    if (gap > record.dropped) lost_.push_back({end_.end_offset, record.offset - record.dropped});
    Count(record, body, record.position);
    position_ = scan.Position();
  }
  RETURN_IF_ERROR(OpenFile(0));
  finished_ = trailer.has_value();
  if (finished_) {
    if (trailer->end_offset > end_.end_offset) {
      lost_.push_back({end_.end_offset, trailer->end_offset});
    }
    end_.end_offset = trailer->end_offset;
    end_.end_count = trailer->end_count;
    end_.ended = trailer->ended;
    position_ = trailer->index_position;
  } else if (ftruncate(fd_.get(), static_cast<off_t>(position_)) != 0) {
    return common::ErrnoStatus(StrCat("cannot cut the torn end of ", Path()));
  }
  // The data that was read back may exist only in the page cache; a sync makes it durable again.
  dirty_ = true;
  synced_ = Now();
  return absl::OkStatus();
}

// The count in the previous segment's trailer.
absl::StatusOr<uint64_t> SegmentWriter::CountBefore(uint64_t first_offset) const {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> segments, files_.List());
  const auto here = std::lower_bound(segments.begin(), segments.end(), first_offset);
  if (here == segments.begin()) return 0;
  SegmentScan scan(files_.Open(*std::prev(here)), kRecordHeadBytes);
  ASSIGN_OR_RETURN(const auto trailer, scan.Trailer());
  return trailer.has_value() ? trailer->end_count : 0;
}

void SegmentWriter::Count(const RecordHead& record, std::string_view body, uint64_t position) {
  // An empty record, such as the mark of the stream's end, has no time to be found by.
  if (record.length > 0) {
    const bool is_first = index_.empty();
    end_.first_us = is_first ? record.time_us : std::min(end_.first_us, record.time_us);
    end_.last_us = is_first ? record.time_us : std::max(end_.last_us, record.time_us);
    if (is_first || record.offset >= index_.back().offset + kIndexStepBytes) {
      index_.push_back({record.offset, position, record.time_us, record.count});
    }
  }
  end_.end_offset = record.EndOffset();
  end_.end_count = record.count + ItemsIn(head_.id.kind, body);
  end_.ended = record.end;
}

RecordHead SegmentWriter::HeadOf(const NewRecord& record) const {
  return {.offset = record.offset,
          .dropped = record.dropped,
          .time_us = record.time_us,
          .count = end_.end_count,
          .length = static_cast<uint32_t>(record.body.size()),
          .end = record.end,
          .removed = record.removed,
          .body_crc = common::Crc32c(record.body)};
}

std::string SegmentWriter::TailBytes() {
  const std::string index = EncodeIndex(index_);
  end_.index_position = position_;
  end_.entries = static_cast<uint32_t>(index_.size());
  end_.index_crc = common::Crc32c(index);
  return index + EncodeSegmentTrailer(end_, head_.salt) + EncodeSegmentHead(head_);
}

absl::Status SegmentWriter::Append(const std::vector<NewRecord>& records, uint64_t bytes_max) {
  if (finished_) RETURN_IF_ERROR(StartNext());
  if (position_ >= bytes_max) {
    RETURN_IF_ERROR(Finish());
    RETURN_IF_ERROR(StartNext());
  }
  // The segment's state changes only if everything was written.
  const State before = Now();
  std::vector<std::string> heads;
  heads.reserve(records.size() + 1);
  std::vector<iovec> pieces;
  for (const NewRecord& record : records) {
    const RecordHead head = HeadOf(record);
    heads.push_back(EncodeRecordHead(head, head_.salt));
    pieces.push_back(PieceOf(heads.back()));
    if (!record.body.empty()) pieces.push_back(PieceOf(record.body));
    Count(head, record.body, position_);
    position_ += kRecordHeadBytes + record.body.size();
  }
  if (end_.ended) {
    heads.push_back(TailBytes());
    pieces.push_back(PieceOf(heads.back()));
  }
  const absl::Status written = WriteAt(fd_.get(), std::move(pieces), before.position, Path());
  if (!written.ok()) {
    GoBackTo(before);
    return written;
  }
  finished_ = end_.ended;
  dirty_ = true;
  return absl::OkStatus();
}

absl::Status SegmentWriter::Finish() {
  const std::string tail = TailBytes();
  RETURN_IF_ERROR(WriteAt(fd_.get(), {PieceOf(tail)}, position_, Path()));
  RETURN_IF_ERROR(Sync());
  finished_ = synced_.finished = true;
  return absl::OkStatus();
}

absl::Status SegmentWriter::StartNext() {
  // This segment must be complete before the next one exists: readers then move on to that one.
  if (dirty_) RETURN_IF_ERROR(Sync());
  RETURN_IF_ERROR(common::MakeDirectories(files_.DirectoryOfOthers()));
  lost_.clear();
  SegmentWriter next;
  next.files_ = files_;
  next.head_.id = head_.id;
  next.end_.end_count = end_.end_count;
  next.durable_ = durable_;
  RETURN_IF_ERROR(next.Start(end_.end_offset));
  *this = std::move(next);
  return absl::OkStatus();
}

absl::Status SegmentWriter::Sync() {
  if (fdatasync(fd_.get()) != 0) {
    // Not a shortage that may be waited out, even if the disk is full: unwritten data may be gone from memory,
    // too.
    return absl::InternalError(common::ErrnoStatus(StrCat("cannot sync ", Path())).message());
  }
  MarkSynced();
  return absl::OkStatus();
}

void SegmentWriter::MarkSynced() {
  durable_ = end_.end_offset;
  dirty_ = false;
  synced_ = Now();
}

uint64_t SegmentWriter::Durable() const {
  return lost_.empty() ? durable_ : std::min(durable_, lost_.front().from);
}

void SegmentWriter::GiveUp(uint64_t offset) {
  for (LostRange& range : lost_) {
    range.from = std::min(std::max(range.from, offset), range.until);
  }
  std::erase_if(lost_, [](const LostRange& range) { return range.from == range.until; });
}

// The sound records of this segment and these, by offset. An empty record may share an offset.
absl::StatusOr<SegmentWriter::Bodies> SegmentWriter::SoundRecords(
    const std::vector<NewRecord>& records) const {
  Bodies all;
  SegmentScan scan(files_.Open(head_.first_offset), kRecoveryWindowBytes);
  while (position_ > kRecordsBegin) {
    ASSIGN_OR_RETURN(const auto head, scan.Head());
    if (!head.has_value()) return absl::DataLossError(StrCat(Path(), " cannot be read any more"));
    ASSIGN_OR_RETURN(auto sound, scan.NextSound());
    if (!sound.has_value() || sound->first.position >= position_) break;
    auto& [old, body] = *sound;
    all[old.offset].push_back({{.offset = old.offset,
                                .dropped = old.dropped,
                                .time_us = old.time_us,
                                .end = old.end,
                                .removed = old.removed,
                                .body = {}},
                               std::move(body)});
  }
  for (const NewRecord& record : records) {
    auto& here = all[record.offset];
    here.insert(here.begin(), {record, std::string(record.body)});
  }
  return all;
}

// A segment is small enough to be rebuilt in memory, and is replaced atomically.
absl::Status SegmentWriter::Restore(const std::vector<NewRecord>& records, uint64_t until) {
  ASSIGN_OR_RETURN(Bodies all, SoundRecords(records));
  SegmentWriter fresh;
  fresh.files_ = files_;
  fresh.head_ = head_;
  fresh.end_ = {.end_offset = head_.first_offset, .end_count = head_.first_count};
  std::string bytes = HeadCopies(head_);
  fresh.position_ = bytes.size();
  for (auto& [offset, here] : all) {
    for (auto& [record, body] : here) {
      record.body = body;
      const RecordHead head = fresh.HeadOf(record);
      fresh.Count(head, body, fresh.position_);
      bytes += EncodeRecordHead(head, head_.salt);
      bytes += body;
      fresh.position_ = bytes.size();
    }
  }
  // The lost part may include the end of the segment.
  fresh.end_.end_offset = std::max(fresh.end_.end_offset, end_.end_offset);
  fresh.end_.end_count = std::max(fresh.end_.end_count, end_.end_count);
  fresh.end_.ended = fresh.end_.ended || end_.ended;
  if (finished_) bytes += fresh.TailBytes();
  RETURN_IF_ERROR(common::WriteFileDurably(Path(), bytes));
  fresh.finished_ = finished_;
  fresh.lost_ = lost_;
  RETURN_IF_ERROR(fresh.OpenFile(0));
  fresh.GiveUp(until);
  fresh.durable_ = fresh.end_.end_offset;
  fresh.synced_ = fresh.Now();
  *this = std::move(fresh);
  return absl::OkStatus();
}

absl::Status SegmentWriter::Mend(SegmentFiles files, const SegmentId& id, uint64_t first_offset) {
  SegmentWriter writer;
  writer.files_ = std::move(files);
  writer.head_.id = id;
  RETURN_IF_ERROR(writer.Recover(first_offset));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> segments, writer.files_.List());
  writer.finished_ = writer.finished_ || writer.HasEnd() || segments.back() != first_offset;
  return writer.Restore({}, UINT64_MAX);
}

}  // namespace muster::coordinator
