// A file of zeros that is deleted when the disk is full, so that running jobs can still be recorded
// while new ones are refused. The journal's thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace muster::coordinator {

class Headroom {
 public:
  static constexpr uint64_t kBytes = 16 << 20;

  explicit Headroom(std::string path) : path_(std::move(path)) {}
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
};

}  // namespace muster::coordinator
