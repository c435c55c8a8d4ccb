// Reads logs that are kept as segments (segments/window.h), wherever those lie. Keeps nothing open
// between calls.
#pragma once

#include <memory>

#include "coordinator/segments/window.h"
#include "coordinator/stores/log_store.h"

namespace muster::coordinator {

class SegmentLogReader : public LogReader {
 public:
  std::unique_ptr<LogCursor> Open(const LogKey& key, uint64_t offset,
                                  size_t ahead = 0) const override;
  std::unique_ptr<LogBackwards> OpenAtEnd(const LogKey& key) const override;
  absl::StatusOr<uint64_t> OffsetSince(const LogKey& key, int64_t time_us) const override;
  absl::StatusOr<uint64_t> OffsetOfLastLines(const LogKey& key, uint64_t lines) const override;

 private:
  virtual std::shared_ptr<const StreamSegments> SegmentsOf(const LogKey& key) const = 0;
};

}  // namespace muster::coordinator
