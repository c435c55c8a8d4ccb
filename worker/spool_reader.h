// Reads one spool (a rank's stream) in order: bytes with their receive times, gaps where output was
// dropped. The index says what is there; a hole in it was trimmed. Any one thread. Format:
// common/shim_protocol.h.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files.h"
#include "common/shim_protocol.h"

namespace muster::worker {

struct SpoolPiece {
  uint64_t offset = 0;   // of data[0] in the stream
  uint64_t dropped = 0;  // lost just before
  std::string data;
  std::vector<std::pair<uint32_t, int64_t>>
      marks;  // position in data, receive time (Unix microseconds)
  bool empty() const { return data.empty() && dropped == 0; }
};

// A place to read on from: the stream offset, and the index record that holds it.
struct SpoolPlace {
  uint64_t offset = 0;
  uint64_t record = 0;
};

class SpoolReader {
 public:
  explicit SpoolReader(std::string path) : path_(std::move(path)) {}

  SpoolPlace place() const { return place_; }
  void Seek(SpoolPlace place) { place_ = place; }
  // Bytes (and dropped bytes) behind place() that the index knows. 0 while the files do not exist.
  uint64_t Available();
  // At most `max_bytes`; ends before a gap. Empty when there is nothing. DATA_LOSS when index and
  // file disagree.
  absl::StatusOr<SpoolPiece> Next(size_t max_bytes);
  // Offset behind the last byte the index knows.
  uint64_t End();

 private:
  bool Open();
  // The record `number`, through a small cache. False: not written yet.
  bool Load(uint64_t number, common::SpoolRecord* record);

  const std::string path_;
  common::UniqueFd data_;
  common::UniqueFd index_;
  SpoolPlace place_;
  uint64_t cached_first_ = 0;
  std::vector<common::SpoolRecord> cached_;
};

}  // namespace muster::worker
