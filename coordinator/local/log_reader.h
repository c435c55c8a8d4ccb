// Reads the log files below a data directory. Keeps no file open between calls.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "coordinator/paths.h"
#include "coordinator/stores/log_store.h"

namespace muster::coordinator {

// "rank-3.stderr" → (3, stderr).
bool ParseStreamName(std::string_view name, LogKey* key);

class LocalLogReader final : public LogReader {
 public:
  explicit LocalLogReader(const Paths& paths) : paths_(paths) {}

  absl::StatusOr<std::vector<LogKey>> Streams(uint64_t job,
                                              std::optional<uint32_t> attempt) const override;
  std::unique_ptr<LogCursor> Open(const LogKey& key, uint64_t offset,
                                  size_t ahead = 0) const override;
  std::unique_ptr<LogBackwards> OpenAtEnd(const LogKey& key) const override;
  absl::StatusOr<uint64_t> OffsetSince(const LogKey& key, int64_t time_us) const override;
  absl::StatusOr<uint64_t> OffsetOfLastLines(const LogKey& key, uint64_t lines) const override;

 private:
  absl::Status AddStreamsOf(uint64_t job, uint32_t attempt, std::vector<LogKey>& keys) const;

  const Paths paths_;
};

}  // namespace muster::coordinator
