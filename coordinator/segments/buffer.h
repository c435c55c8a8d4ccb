// A segment that is made in memory. One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "coordinator/segments/format.h"
#include "coordinator/segments/layout.h"

namespace muster::coordinator {

class SegmentBuffer {
 public:
  explicit SegmentBuffer(const SegmentHead& head) : layout_(head), bytes_(layout_.HeadBytes()) {}
  // With a new salt.
  static absl::StatusOr<SegmentBuffer> Begin(const SegmentId& id, uint64_t first_offset,
                                             uint64_t first_count);

  void Add(const RecordHead& record, std::string_view body);
  void Add(const NewRecord& record) { Add(layout_.HeadOf(record), record.body); }
  // Adds the index and the trailer; nothing is added afterwards.
  void Finish() { bytes_ += layout_.TailBytes(); }

  SegmentLayout& layout() { return layout_; }
  const SegmentLayout& layout() const { return layout_; }
  const std::string& bytes() const { return bytes_; }

 private:
  SegmentLayout layout_;
  std::string bytes_;
};

}  // namespace muster::coordinator
