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
#include "coordinator/segments/buffer.h"
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

}  // namespace

absl::StatusOr<SegmentWriter> SegmentWriter::Open(SegmentFiles files, const SegmentId& id) {
  SegmentWriter writer;
  writer.files_ = std::move(files);
  writer.at_.head.id = id;
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
  at_.position = state.position;
  at_.index.resize(state.entries);
  at_.end = state.end;
  finished_ = state.finished;
}

absl::Status SegmentWriter::OpenFile(int flags) {
  ASSIGN_OR_RETURN(fd_, common::OpenRegular(Path(), O_RDWR | O_NOFOLLOW | flags));
  return absl::OkStatus();
}

absl::Status SegmentWriter::Start(uint64_t first_offset) {
  at_.head.first_offset = first_offset;
  at_.head.first_count = at_.end.end_count;
  ASSIGN_OR_RETURN(at_.head.salt, RandomSalt());
  at_ = SegmentLayout(at_.head);
  RETURN_IF_ERROR(OpenFile(O_CREAT | O_TRUNC));
  const std::string head = at_.HeadBytes();
  RETURN_IF_ERROR(WriteAt(fd_.get(), {PieceOf(head)}, 0, Path()));
  finished_ = false;
  dirty_ = true;
  synced_ = Now();
  return absl::OkStatus();
}

absl::Status SegmentWriter::Recover(uint64_t first_offset) {
  at_.head.first_offset = first_offset;
  SegmentScan scan(files_.Open(at_.head.first_offset), kRecoveryWindowBytes);
  ASSIGN_OR_RETURN(const auto head, scan.Head());
  const bool is_ours = head.has_value() && head->id == at_.head.id &&
                       head->first_offset == first_offset &&
                       scan.TotalBytes() <= kSegmentFileBytesMax;
  if (!is_ours) {
    ASSIGN_OR_RETURN(at_.end.end_count, CountBefore(first_offset));
    // None of it can be read. A file that is longer than a head is kept for inspection.
    const std::string aside = StrCat(Path(), ".damaged");
    if (scan.TotalBytes() > kRecordsBegin && std::rename(Path().c_str(), aside.c_str()) != 0) {
      return common::ErrnoStatus(StrCat("cannot set ", Path(), " aside"));
    }
    return Start(first_offset);
  }
  at_ = SegmentLayout(*head);
  ASSIGN_OR_RETURN(const auto trailer, scan.Trailer());
  while (true) {
    ASSIGN_OR_RETURN(const auto sound, scan.NextSound());
    if (!sound.has_value()) break;
    const auto& [record, body] = *sound;
    // Skipped bytes are lost if a sound record follows them; otherwise they are a torn end.
    const uint64_t gap = record.offset - at_.end.end_offset;
    if (gap > record.dropped) lost_.push_back({at_.end.end_offset, record.offset - record.dropped});
    at_.Count(record, body, record.position);
    at_.position = scan.Position();
  }
  RETURN_IF_ERROR(OpenFile(0));
  finished_ = trailer.has_value();
  if (finished_) {
    if (trailer->end_offset > at_.end.end_offset) {
      lost_.push_back({at_.end.end_offset, trailer->end_offset});
    }
    at_.end.end_offset = trailer->end_offset;
    at_.end.end_count = trailer->end_count;
    at_.end.ended = trailer->ended;
    at_.position = trailer->index_position;
  } else if (ftruncate(fd_.get(), static_cast<off_t>(at_.position)) != 0) {
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

absl::Status SegmentWriter::Append(const std::vector<NewRecord>& records, uint64_t bytes_max) {
  if (finished_) RETURN_IF_ERROR(StartNext());
  if (at_.position >= bytes_max) {
    RETURN_IF_ERROR(Finish());
    RETURN_IF_ERROR(StartNext());
  }
  // The segment's state changes only if everything was written.
  const State before = Now();
  std::vector<std::string> heads;
  heads.reserve(records.size() + 1);
  std::vector<iovec> pieces;
  for (const NewRecord& record : records) {
    const RecordHead head = at_.HeadOf(record);
    heads.push_back(EncodeRecordHead(head, at_.head.salt));
    pieces.push_back(PieceOf(heads.back()));
    if (!record.body.empty()) pieces.push_back(PieceOf(record.body));
    at_.Count(head, record.body, at_.position);
    at_.position += kRecordHeadBytes + record.body.size();
  }
  if (at_.end.ended) {
    heads.push_back(at_.TailBytes());
    pieces.push_back(PieceOf(heads.back()));
  }
  const absl::Status written = WriteAt(fd_.get(), std::move(pieces), before.position, Path());
  if (!written.ok()) {
    GoBackTo(before);
    return written;
  }
  finished_ = at_.end.ended;
  dirty_ = true;
  return absl::OkStatus();
}

absl::Status SegmentWriter::Finish() {
  const std::string tail = at_.TailBytes();
  RETURN_IF_ERROR(WriteAt(fd_.get(), {PieceOf(tail)}, at_.position, Path()));
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
  next.at_.head.id = at_.head.id;
  next.at_.end.end_count = at_.end.end_count;
  next.durable_ = durable_;
  RETURN_IF_ERROR(next.Start(at_.end.end_offset));
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
  durable_ = at_.end.end_offset;
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
  SegmentScan scan(files_.Open(at_.head.first_offset), kRecoveryWindowBytes);
  while (at_.position > kRecordsBegin) {
    ASSIGN_OR_RETURN(const auto head, scan.Head());
    if (!head.has_value()) return absl::DataLossError(StrCat(Path(), " cannot be read any more"));
    ASSIGN_OR_RETURN(auto sound, scan.NextSound());
    if (!sound.has_value() || sound->first.position >= at_.position) break;
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
  SegmentBuffer buffer(at_.head);
  for (auto& [offset, here] : all) {
    for (auto& [record, body] : here) {
      record.body = body;
      buffer.Add(record);
    }
  }
  // The lost part may include the end of the segment.
  EndAtLeast(at_.end, buffer.layout().end);
  if (finished_) buffer.Finish();
  RETURN_IF_ERROR(common::WriteFileDurably(Path(), buffer.bytes()));
  SegmentWriter fresh;
  fresh.files_ = files_;
  fresh.at_ = buffer.layout();
  fresh.finished_ = finished_;
  fresh.lost_ = lost_;
  RETURN_IF_ERROR(fresh.OpenFile(0));
  fresh.GiveUp(until);
  fresh.durable_ = fresh.at_.end.end_offset;
  fresh.synced_ = fresh.Now();
  *this = std::move(fresh);
  return absl::OkStatus();
}

absl::Status SegmentWriter::Mend(SegmentFiles files, const SegmentId& id, uint64_t first_offset) {
  SegmentWriter writer;
  writer.files_ = std::move(files);
  writer.at_.head.id = id;
  RETURN_IF_ERROR(writer.Recover(first_offset));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> segments, writer.files_.List());
  writer.finished_ = writer.finished_ || writer.HasEnd() || segments.back() != first_offset;
  return writer.Restore({}, UINT64_MAX);
}

}  // namespace muster::coordinator
