// Reads a stream's record heads from the end backwards: bytes before the place where reading stops
// cost nothing. Works on a snapshot: bytes appended meanwhile are not seen. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/segments/scan.h"
#include "coordinator/segments/window.h"

namespace muster::coordinator {

struct CountedRecord : ScannedRecord {
  uint64_t items = 0;  // that end in it; in the stream's last record also an unfinished line
};

class SegmentBackwards {
 public:
  explicit SegmentBackwards(std::shared_ptr<const StreamSegments> stream)
      : stream_(std::move(stream)) {}

  // The record before the one returned last, starting with the stream's last one; nullopt: no more.
  absl::StatusOr<std::optional<CountedRecord>> Previous();

 private:
  // Opens the previous segment; false: there is none.
  absl::StatusOr<bool> OpenPrevious();
  // Fills block_ with the records just before end_.
  absl::Status ReadBlock();
  absl::StatusOr<uint64_t> LinesAtTheEnd(const ScannedRecord& last);

  const std::shared_ptr<const StreamSegments> stream_;
  bool listed_ = false;
  std::vector<uint64_t> segments_;  // not yet opened
  std::unique_ptr<SegmentScan> scan_;
  uint64_t end_ = 0;  // records from this position on were returned
  uint64_t step_ = 0;
  std::vector<ScannedRecord> block_;
  std::optional<uint64_t> count_behind_;
};

}  // namespace muster::coordinator
