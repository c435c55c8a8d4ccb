#include "coordinator/segments/scan.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/hash/crc32c.h"
#include "common/text/strings.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr size_t kSearchBytesMin = 8 << 10;
constexpr size_t kSearchBytesMax = 256 << 10;

}  // namespace

absl::StatusOr<std::optional<SegmentHead>> SegmentScan::Head() {
  if (head_.has_value()) return head_;
  for (size_t copy = 0; copy < kHeadCopies && !head_.has_value(); ++copy) {
    ASSIGN_OR_RETURN(const std::string_view bytes,
                     window_.At(copy * kSegmentHeadBytes, kSegmentHeadBytes));
    head_ = DecodeSegmentHead(bytes);
  }
  if (head_.has_value()) return head_;
  if (window_.TotalBytes() >= kRecordsBegin + kSegmentTailBytes) {
    ASSIGN_OR_RETURN(const std::string_view bytes,
                     window_.At(window_.TotalBytes() - kSegmentHeadBytes, kSegmentHeadBytes));
    head_ = DecodeSegmentHead(bytes);
  }
  if (!head_.has_value()) Forget();
  return head_;
}

absl::StatusOr<std::optional<SegmentTrailer>> SegmentScan::Trailer() {
  if (trailer_.has_value()) return trailer_;
  ASSIGN_OR_RETURN(const auto head, Head());
  if (!head.has_value()) return std::nullopt;
  Forget();  // the file may have grown
  RETURN_IF_ERROR(window_.At(0, 1).status());
  const uint64_t size = window_.TotalBytes();
  if (size < kRecordsBegin + kSegmentTailBytes) return std::nullopt;
  ASSIGN_OR_RETURN(const std::string_view bytes,
                   window_.At(size - kSegmentTailBytes, kSegmentTrailerBytes));
  const auto trailer = DecodeSegmentTrailer(bytes, head->salt);
  // The index is just before the trailer.
  if (trailer.has_value() && trailer->index_position >= kRecordsBegin &&
      trailer->index_position + trailer->entries * kIndexEntryBytes + kSegmentTailBytes == size) {
    trailer_ = trailer;
  }
  return trailer_;
}

absl::StatusOr<std::vector<IndexEntry>> SegmentScan::Index() {
  ASSIGN_OR_RETURN(const auto trailer, Trailer());
  if (!trailer.has_value()) return std::vector<IndexEntry>();
  ASSIGN_OR_RETURN(const std::string_view bytes,
                   window_.At(trailer->index_position, trailer->entries * kIndexEntryBytes));
  return DecodeIndex(bytes, *trailer).value_or(std::vector<IndexEntry>());
}

absl::StatusOr<bool> SegmentScan::HasSoundIndex() {
  ASSIGN_OR_RETURN(const auto trailer, Trailer());
  ASSIGN_OR_RETURN(const auto index, Index());
  return trailer.has_value() && index.size() == trailer->entries;
}

uint64_t SegmentScan::RecordsEnd() const {
  return trailer_.has_value() ? trailer_->index_position : window_.TotalBytes();
}

uint64_t SegmentScan::UnreadableBytes() const {
  const uint64_t end = RecordsEnd();
  return end > position_ ? end - position_ : 0;
}

std::optional<ScannedRecord> SegmentScan::Decoded(std::string_view bytes, uint64_t position) const {
  const auto head = DecodeRecordHead(bytes, head_->salt);
  if (!head.has_value() || head->offset < std::max(end_offset_, head_->first_offset)) {
    return std::nullopt;
  }
  return ScannedRecord{*head, position};
}

absl::StatusOr<std::optional<ScannedRecord>> SegmentScan::At(uint64_t position) {
  ASSIGN_OR_RETURN(const std::string_view bytes, window_.At(position, kRecordHeadBytes));
  return Decoded(bytes, position);
}

absl::StatusOr<std::optional<ScannedRecord>> SegmentScan::Search() {
  const size_t step = std::clamp(window_.Bytes(), kSearchBytesMin, kSearchBytesMax);
  while (true) {
    ASSIGN_OR_RETURN(const std::string_view ahead, window_.At(searched_, step));
    size_t mark = FindRecordMark(ahead, 0);
    // Ranks may print as many marks as they like: each is tried without reading again.
    while (mark != std::string_view::npos && ahead.size() - mark >= kRecordHeadBytes) {
      const auto found = Decoded(ahead.substr(mark, kRecordHeadBytes), searched_ + mark);
      if (found.has_value()) {
        searched_ += mark;
        return found;
      }
      mark = FindRecordMark(ahead, mark + 1);
    }
    // The last bytes may be the first of a mark; a head that is cut may still be written.
    const size_t last = ahead.size() < 4 ? 0 : ahead.size() - 3;
    searched_ += std::min(mark, last);
    if (ahead.size() < step) return std::nullopt;
  }
}

absl::Status SegmentScan::SeekTo(uint64_t position) {
  RETURN_IF_ERROR(Head().status());
  position_ = std::max<uint64_t>(position, kRecordsBegin);
  end_offset_ = 0;
  searched_ = position_;
  if (!head_.has_value() || position_ == kRecordsBegin) {
    searched_ = 0;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const auto record, Search());
  position_ = record.has_value() ? record->position : RecordsEnd();
  searched_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<ScannedRecord>> SegmentScan::Next() {
  ASSIGN_OR_RETURN(const auto head, Head());
  if (!head.has_value()) return std::nullopt;
  ASSIGN_OR_RETURN(auto record, At(position_));
  if (!record.has_value() && window_.WasKnown()) {
    Forget();  // the record may have been read while it was being written
    ASSIGN_OR_RETURN(record, At(position_));
  }
  if (!record.has_value() && position_ < window_.TotalBytes()) {
    RETURN_IF_ERROR(Trailer().status());
    if (position_ >= RecordsEnd()) return std::nullopt;
    searched_ = std::max(searched_, position_ + 1);
    ASSIGN_OR_RETURN(record, Search());
  }
  if (!record.has_value()) {
    Forget();
    return std::nullopt;
  }
  const uint64_t end = record->position + kRecordHeadBytes + record->length;
  if (end > window_.TotalBytes()) {
    Forget();
    RETURN_IF_ERROR(window_.At(record->position, 1).status());
    if (end > window_.TotalBytes()) return std::nullopt;  // its body is not written yet, or torn
  }
  position_ = end;
  searched_ = 0;
  end_offset_ = record->EndOffset();
  return record;
}

absl::StatusOr<std::optional<std::pair<ScannedRecord, std::string>>> SegmentScan::NextSound() {
  while (true) {
    ASSIGN_OR_RETURN(const auto record, Next());
    if (!record.has_value()) return std::nullopt;
    absl::StatusOr<std::string> body = Body(*record);
    if (absl::IsDataLoss(body.status())) continue;
    RETURN_IF_ERROR(body.status());
    return std::pair{*record, *std::move(body)};
  }
}

absl::StatusOr<std::string_view> SegmentScan::BodyView(const ScannedRecord& record) {
  ASSIGN_OR_RETURN(const std::string_view body,
                   window_.At(record.position + kRecordHeadBytes, record.length));
  if (body.size() != record.length || common::Crc32c(body) != record.body_crc) {
    return absl::DataLossError(
        StrCat(window_.Name(), ": the record at ", record.position, " is damaged"));
  }
  return body;
}

absl::StatusOr<std::string> SegmentScan::Body(const ScannedRecord& record) {
  ASSIGN_OR_RETURN(const std::string_view body, BodyView(record));
  return std::string(body);
}

}  // namespace muster::coordinator
