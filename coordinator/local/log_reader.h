// Finds the segments of logs below a data directory.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "coordinator/store_parts/segment_logs.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

// "rank-3.stderr" → (3, stderr).
bool ParseStreamName(std::string_view name, LogKey* key);

class LocalLogReader final : public SegmentLogReader {
 public:
  explicit LocalLogReader(const Paths& paths) : paths_(paths) {}

  absl::StatusOr<std::vector<LogKey>> Streams(uint64_t job,
                                              std::optional<uint32_t> attempt) const override;

 private:
  std::shared_ptr<const StreamSegments> SegmentsOf(const LogKey& key) const override;
  absl::Status AddStreamsOf(uint64_t job, uint32_t attempt, std::vector<LogKey>& keys) const;

  const Paths paths_;
};

}  // namespace muster::coordinator
