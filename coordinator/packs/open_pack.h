// A pack whose bytes still arrive, or that is under way to the store: in memory, read as it grows. Any thread, unless noted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/packs/format.h"
#include "coordinator/segments/buffer.h"
#include "coordinator/segments/window.h"

namespace muster::coordinator {

class OpenPack {
 public:
  OpenPack(PackLane lane, std::string name) : lane_(std::move(lane)), name_(std::move(name)) {}

  const PackLane& lane() const { return lane_; }
  const std::string& name() const { return name_; }

  // The writer's thread, until it is sealed. `end`: of the stream so far; updated.
  absl::Status Append(PackStream stream, const std::vector<NewRecord>& records, StreamEnd& end);
  // Completes the segments and returns the pack's bytes. `ends`: of all streams of the lane.
  std::string Seal(const std::map<PackStream, StreamEnd>& ends);
  size_t Bytes() const;

  // Where the stream's segment here begins.
  std::optional<uint64_t> FirstOffset(PackStream stream) const;
  std::vector<PackStream> Streams() const;
  // Its bytes as they are now.
  SegmentBytes::Piece Read(PackStream stream, uint64_t position, size_t size) const;

 private:
  const PackLane lane_;
  const std::string name_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<PackStream, SegmentBuffer> segments_;
  size_t bytes_ = 0;
};

}  // namespace muster::coordinator
