// A file of zeros that is deleted when the disk runs full, so that what runs can still be recorded
// while new work is refused. The journal's thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace muster::coordinator {

class Headroom {
 public:
  static constexpr uint64_t kBytes = 16 << 20;

  explicit Headroom(std::string path) : path_(std::move(path)) {}
  // Makes the file when it is missing. False: there is no room for it.
  bool Reserve();
  // Gives the bytes back. False: there was nothing to give.
  bool Release();
  // OK when the file is there or there is room for it. RESOURCE_EXHAUSTED names the disk, what it
  // has left and what to free.
  absl::Status CheckRoom() const;
  // Room for the file and as much again.
  bool HasRoomAgain() const;

 private:
  std::string path_;
};

}  // namespace muster::coordinator
