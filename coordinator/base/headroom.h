// A file of zeros that is deleted when the disk is full, so that running jobs can still be recorded while new
// ones are refused. A second, smaller file is deleted when that space is used up as well and a call waits: its
// space is for the person who frees the disk (ls, cancel, rm). The journal's thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace muster::coordinator {

class Headroom {
 public:
  static constexpr uint64_t kBytes = 16 << 20;
  static constexpr uint64_t kLastBytes = 4 << 20;

  explicit Headroom(std::string path, uint64_t bytes = kBytes)
      : path_(std::move(path)), bytes_(bytes) {}
  // Creates the file if it is missing. False: there is no room for it.
  bool Reserve();
  // Frees the space. False: there was nothing to free.
  bool Release();
  // OK if the file exists or there is room for it. RESOURCE_EXHAUSTED names the disk, the free
  // space and what to free.
  absl::Status CheckRoom() const;
  // Room for the file and the same amount again.
  bool HasRoomAgain() const;

 private:
  std::string path_;
  uint64_t bytes_;
};

// What a person can do about a full disk: the same words in every message.
std::string FixOfFullDisk(const std::string& data_dir);

}  // namespace muster::coordinator
