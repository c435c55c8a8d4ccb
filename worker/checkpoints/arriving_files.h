// What an attempt's node has of the checkpoint's files while they arrive, for other nodes of the attempt that want them
// as well. Any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "common/files/files.h"

namespace muster::worker {

class ArrivingFiles {
 public:
  // A smaller file costs more turns than bytes.
  static constexpr uint64_t kBytesMin = 1 << 20;
  // limit: checkpoints: files of one attempt that its node keeps open for other nodes; these fetch the others from the store
  static constexpr size_t kFilesMax = 256;

  // A file begins to arrive at `fd`, of which a copy is kept, so that no rank can put another file in its place.
  void Begin(const std::string& sha256, uint64_t size, int fd);
  // So many of its first bytes are there.
  void Advance(const std::string& sha256, uint64_t bytes);
  // It is fetched once more, from its beginning.
  void Restart(const std::string& sha256);
  // Nothing will arrive any more.
  void End();
  bool HasEnded() const;

  struct Piece {
    uint64_t bytes = 0;     // past the offset, that were read
    bool is_whole = false;  // they were the last ones
    bool is_over = false;   // it is not here, and will not be
  };
  // Reads at most `most` bytes from `offset` on; waits at most `wait` for the first of them.
  Piece Read(const std::string& sha256, uint64_t offset, char* to, size_t most,
             std::chrono::milliseconds wait);

 private:
  struct File {
    std::shared_ptr<const common::UniqueFd> fd;
    uint64_t size = 0;
    uint64_t there = 0;
    bool has_failed = false;  // it will not be had here
  };
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<std::string, File> files_;  // by SHA-256
  size_t open_ = 0;
  bool has_ended_ = false;
};

}  // namespace muster::worker
