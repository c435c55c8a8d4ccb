// One rank's log on disk, for appending: a stream of segments. The log store's thread only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/paths.h"
#include "coordinator/segments/writer.h"
#include "coordinator/stores/log_store.h"

namespace muster::coordinator {

SegmentId SegmentIdOf(const LogKey& key);

class LogStreamFile {
 public:
  // Makes the file, or opens it and recovers what is there.
  static absl::StatusOr<LogStreamFile> Open(const Paths& paths, const LogKey& key);

  // Takes what is new in the chunk, also in place of what was found damaged. Bytes known already
  // are skipped; a gap takes nothing (Durable stays, the sender goes back to it) unless the chunk
  // says that its bytes were dropped or that its sender has them no more. RESOURCE_EXHAUSTED,
  // UNAVAILABLE: nothing was taken, the same call may be repeated. OUT_OF_RANGE: no file here can
  // be that long.
  absl::Status Append(const v1::LogChunk& chunk);

  uint64_t Written() const { return file_.Written(); }
  uint64_t Durable() const { return file_.Durable(); }
  // To the end, and nothing before it is waited for.
  bool Ended() const { return file_.HasEnd() && file_.Lost().empty(); }
  // Of the file itself: opening, closing, syncing.
  SegmentWriter& File() { return file_; }
  const SegmentWriter& File() const { return file_; }

 private:
  explicit LogStreamFile(SegmentWriter file) : file_(std::move(file)) {}
  // Gathers what the chunk has of the first lost range, and writes it once that range is whole or
  // nothing more of it can come.
  absl::Status Restore(const v1::LogChunk& chunk);

  SegmentWriter file_;
  std::map<uint64_t, std::pair<NewRecord, std::string>> brought_;  // of the first lost range
};

}  // namespace muster::coordinator
