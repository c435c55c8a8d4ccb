// One rank's log on disk, for appending: raw bytes at their stream offsets, and the index.
// The log store's thread only.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "coordinator/local/log_format.h"
#include "coordinator/paths.h"

namespace muster::coordinator {

class LogStreamFile {
 public:
  // Makes the files, or opens them and cuts them at the last good record (checksums, limits.h).
  static absl::StatusOr<LogStreamFile> Open(const Paths& paths, const LogKey& key);
  // Gives the descriptors back and keeps what is known of the files; nothing may be dirty.
  void Close();
  bool IsOpen() const { return data_.valid() && index_.valid(); }
  // After Close. NOT_FOUND: the files are gone.
  absl::Status Reopen();

  // Takes what is new in the chunk. Bytes known already are skipped; a gap that `dropped` does not
  // explain takes nothing (Written stays, the sender goes back to it). RESOURCE_EXHAUSTED: nothing
  // was taken, the same call may be repeated. OUT_OF_RANGE: no file here can hold this offset.
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
  absl::Status OpenFiles(int flags);
  absl::Status Recover();
  // How many records of the index follow each other, and where the stream ends with them.
  absl::StatusOr<uint64_t> ChainedRecords();
  // How many of them have data that matches, in the part that a crash may have torn.
  absl::StatusOr<uint64_t> SoundRecords(uint64_t chained);
  absl::Status CutTo(uint64_t records);

  common::UniqueFd data_;
  common::UniqueFd index_;
  std::string path_;
  std::string index_path_;
  uint64_t written_ = 0;
  uint64_t durable_ = 0;
  uint64_t index_bytes_ = 0;
  bool ended_ = false;
  bool dirty_ = false;
};

}  // namespace muster::coordinator
