#include "coordinator/segments/buffer.h"

#include "common/base/status.h"
#include "coordinator/segments/files.h"

namespace muster::coordinator {

absl::StatusOr<SegmentBuffer> SegmentBuffer::Begin(const SegmentId& id, uint64_t first_offset,
                                                   uint64_t first_count) {
  ASSIGN_OR_RETURN(const uint64_t salt, RandomSalt());
  return SegmentBuffer(SegmentHead{
      .id = id, .first_offset = first_offset, .first_count = first_count, .salt = salt});
}

void SegmentBuffer::Add(const RecordHead& record, std::string_view body) {
  bytes_ += EncodeRecordHead(record, layout_.head.salt);
  bytes_ += body;
  layout_.Count(record, body, layout_.position);
  layout_.position = bytes_.size();
}

}  // namespace muster::coordinator
