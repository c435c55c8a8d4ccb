// The bytes of a metric segment: records of (length, CRC-32C, MetricBatch).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

std::string EncodeMetricRecord(const v1::MetricBatch& batch);

// Reads a segment record by record while it may grow, a piece of it in memory at a time. Keeps no
// descriptor between reads. One thread at a time.
class MetricSegmentReader {
 public:
  static constexpr size_t kPieceBytes = 256 * 1024;

  explicit MetricSegmentReader(std::string path) : path_(std::move(path)) {}

  // The next whole record. False: nothing more for now; what follows is torn, damaged or not there.
  // A missing file holds nothing.
  absl::StatusOr<bool> Next(v1::MetricBatch& batch);
  // Where the next record begins: all before it is sound.
  uint64_t SoundBytes() const { return offset_; }

 private:
  // Makes `size` bytes from the next record on available, unless the file has fewer.
  absl::Status Fill(size_t size);
  std::string_view Ahead() const { return std::string_view(piece_).substr(used_); }

  std::string path_;
  uint64_t offset_ = 0;  // of the next record
  std::string piece_;    // bytes of the file; those from used_ on begin at offset_
  size_t used_ = 0;
};

}  // namespace muster::coordinator
