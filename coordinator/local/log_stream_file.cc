#include "coordinator/local/log_stream_file.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "coordinator/store_parts/log_pieces.h"

namespace muster::coordinator {
namespace {

NewRecord RecordOf(const v1::LogChunk& chunk, const LogPiece& piece) {
  return {.offset = piece.offset,
          .dropped = piece.dropped,
          .time_us = piece.time_us,
          .end = piece.end,
          .body = BytesOf(chunk, piece)};
}

}  // namespace

SegmentId SegmentIdOf(const LogKey& key) {
  return {.kind = SegmentKind::kLog,
          .job = key.job,
          .attempt = key.attempt,
          .rank = key.rank,
          .stream = static_cast<uint32_t>(key.stream)};
}

absl::StatusOr<LogStreamFile> LogStreamFile::Open(const Paths& paths, const LogKey& key) {
  RETURN_IF_ERROR(common::MakeDirectories(paths.LogDirectory(key.job, key.attempt)));
  ASSIGN_OR_RETURN(SegmentWriter file,
                   SegmentWriter::Open(SegmentFiles(paths.LogStream(key)), SegmentIdOf(key)));
  return LogStreamFile(std::move(file));
}

absl::Status LogStreamFile::Append(const v1::LogChunk& chunk, uint64_t segment_bytes) {
  if (!file_.Lost().empty()) RETURN_IF_ERROR(Restore(chunk));
  if (file_.HasEnd()) return absl::OkStatus();
  const std::vector<LogPiece> pieces = NewPieces(chunk, file_.Written());
  if (pieces.empty()) return absl::OkStatus();
  std::vector<NewRecord> records;
  records.reserve(pieces.size());
  for (const LogPiece& piece : pieces) records.push_back(RecordOf(chunk, piece));
  return file_.Append(records, segment_bytes);
}

absl::Status LogStreamFile::Restore(const v1::LogChunk& chunk) {
  file_.GiveUp(KeptFrom(chunk));
  if (file_.Lost().empty()) {
    brought_.clear();
    return absl::OkStatus();
  }
  const LostRange lost = file_.Lost().front();
  uint64_t known = lost.from;
  if (!brought_.empty()) {
    const NewRecord& last = brought_.rbegin()->second.first;
    known = last.offset + brought_.rbegin()->second.second.size();
  }
  for (LogPiece piece : NewPieces(chunk, known)) {
    if (piece.offset >= lost.until) break;
    piece.length =
        static_cast<uint32_t>(std::min<uint64_t>(piece.length, lost.until - piece.offset));
    piece.end = false;
    brought_[piece.offset] = {RecordOf(chunk, piece), std::string(BytesOf(chunk, piece))};
    known = piece.offset + piece.length;
  }
  if (known < lost.until) return absl::OkStatus();
  std::vector<NewRecord> records;
  for (auto& [offset, brought] : brought_) {
    brought.first.body = brought.second;
    records.push_back(brought.first);
  }
  RETURN_IF_ERROR(file_.Restore(records, lost.until));
  brought_.clear();
  return absl::OkStatus();
}

}  // namespace muster::coordinator
