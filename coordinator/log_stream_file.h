// One rank's log on disk, for appending: raw bytes at their stream offsets, and the index.
// The log store's thread only.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "coordinator/log_format.h"
#include "coordinator/paths.h"

namespace muster::coordinator {

class LogStreamFile {
 public:
  // Makes the files, or opens them and cuts off a torn tail (checksums).
  static absl::StatusOr<LogStreamFile> Open(const Paths& paths, const LogKey& key);

  // Takes what is new in the chunk. Bytes known already are skipped; a gap that `dropped` does not
  // explain takes nothing (Written stays, the sender goes back to it). RESOURCE_EXHAUSTED: nothing
  // was taken, the same call may be repeated.
  absl::Status Append(const v1::LogChunk& chunk);
  absl::Status Sync();

  uint64_t Written() const { return written_; }
  uint64_t Durable() const { return durable_; }
  bool Ended() const { return ended_; }
  bool Dirty() const { return dirty_; }
  // After a syncfs by somebody else.
  void MarkSynced();
  int Descriptor() const { return data_.get(); }

 private:
  absl::Status Recover(const std::string& index_path);

  common::UniqueFd data_;
  common::UniqueFd index_;
  std::string path_;
  uint64_t written_ = 0;
  uint64_t durable_ = 0;
  uint64_t index_bytes_ = 0;
  bool ended_ = false;
  bool dirty_ = false;
};

}  // namespace muster::coordinator
