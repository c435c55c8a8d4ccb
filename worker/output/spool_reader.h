// Reads one spool (a rank's stream) in order: bytes with their receive times, gaps where output was
// dropped. The index lists the stored pieces; a hole in it was trimmed. Any one thread. Format:
// common/kernel/shim_protocol.h.
//
// The rank can write to both files, and put a FIFO in their place: every record is validated before
// it is used, and an invalid one ends only this stream (DATA_LOSS or INVALID_ARGUMENT). UNAVAILABLE
// is transient: no descriptor was free.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/files.h"
#include "common/kernel/shim_protocol.h"

namespace muster::worker {

struct SpoolPiece {
  uint64_t offset = 0;   // of data[0] in the stream
  uint64_t dropped = 0;  // lost just before
  std::string data;
  std::vector<std::pair<uint32_t, int64_t>>
      marks;          // position in data, receive time (Unix microseconds)
  bool more = false;  // reading stopped early: call again
  bool empty() const { return data.empty() && dropped == 0; }
};

// A position to continue from: the stream offset, and the index record that contains it.
struct SpoolPlace {
  uint64_t offset = 0;
  uint64_t record = 0;
};

class SpoolReader {
 public:
  explicit SpoolReader(std::string path) : path_(std::move(path)) {}

  SpoolPlace place() const { return place_; }
  void Seek(SpoolPlace place);
  // Bytes (and dropped bytes) after place() that the index covers. 0 while the files do not exist.
  absl::StatusOr<uint64_t> Available();
  // At most `max_bytes`; stops before a gap. Empty if there is nothing. DATA_LOSS, INVALID_ARGUMENT: the files
  // are not what a shim wrote. After any other error, which comes from the disk, the place is unchanged.
  absl::StatusOr<SpoolPiece> Next(size_t max_bytes);
  // Offset after the last byte in the index. If the last record is invalid: beyond every stream, so
  // that Next reaches it.
  absl::StatusOr<uint64_t> End();
  // Closes both files until they are needed again.
  void Close();

 private:
  // False: they do not exist yet.
  absl::StatusOr<bool> Open();
  // Loads record `number`, through a small cache. False: not written yet.
  absl::StatusOr<bool> Load(uint64_t number, common::SpoolRecord* record);
  // Reads one piece, and moves `place_` behind it.
  absl::StatusOr<SpoolPiece> Take(size_t max_bytes);
  // OK if the record is plausible, follows what was read, and its bytes exist.
  absl::Status Check(const common::SpoolRecord& record);
  // Moves past the hole that starts at the current record. False: there is nothing after it.
  bool SkipHole();
  absl::Status ReadBytes(SpoolPiece* piece, uint64_t size);

  const std::string path_;
  common::UniqueFd data_;
  common::UniqueFd index_;
  SpoolPlace place_;
  uint64_t checked_records_ = 0;  // records below were checked …
  uint64_t checked_end_ = 0;      // … and end here
  uint64_t data_size_ = 0;        // as last seen
  uint64_t cached_first_ = 0;
  std::vector<common::SpoolRecord> cached_;
};

}  // namespace muster::worker
