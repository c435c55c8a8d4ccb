// One rank's log on disk, for appending: a stream of segments. The log store's thread only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/segments/writer.h"
#include "coordinator/stores/log_store.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

SegmentId SegmentIdOf(const LogKey& key);

class LogStreamFile {
 public:
  // Creates the file, or opens and recovers the existing one.
  static absl::StatusOr<LogStreamFile> Open(const Paths& paths, const LogKey& key);

  // Appends the new bytes of the chunk, and fills in ranges that were found damaged. Bytes already
  // known are skipped. A chunk after a gap is ignored (Durable does not move, so the sender goes
  // back to it), unless it reports that the bytes in the gap were dropped or that its sender no
  // longer has them. RESOURCE_EXHAUSTED, UNAVAILABLE: nothing was appended; the same call may be
  // repeated. OUT_OF_RANGE: no file can be that long here. `segment_bytes`: as in
  // SegmentWriter::Append.
  absl::Status Append(const v1::LogChunk& chunk, uint64_t segment_bytes = kSegmentBytesMax);

  uint64_t Written() const { return file_.Written(); }
  uint64_t Durable() const { return file_.Durable(); }
  // True if the end was written and no bytes before it are expected any more.
  bool Ended() const { return file_.HasEnd() && file_.Lost().empty(); }
  // To open, close and sync the file.
  SegmentWriter& File() { return file_; }
  const SegmentWriter& File() const { return file_; }

 private:
  explicit LogStreamFile(SegmentWriter file) : file_(std::move(file)) {}
  // Collects the chunk's part of the first lost range, and writes the range once it is complete or
  // no more of it can arrive.
  absl::Status Restore(const v1::LogChunk& chunk);

  SegmentWriter file_;
  std::map<uint64_t, std::pair<NewRecord, std::string>> brought_;  // for the first lost range
};

}  // namespace muster::coordinator
