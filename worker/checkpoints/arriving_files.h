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

  // `files_max`: files that are kept open; other nodes fetch further ones from the store.
  explicit ArrivingFiles(size_t files_max) : files_max_(files_max) {}

  // A file begins to arrive at `fd`, of which a copy is kept, so that no rank can put another file in its place. False: it
  // is small, cannot be kept, or its bytes arrive as another file: there is no more to say of it.
  bool Begin(const std::string& sha256, uint64_t size, int fd);
  // So many of its first bytes are there.
  void Advance(const std::string& sha256, uint64_t bytes);
  // It is fetched once more, from its beginning.
  void Restart(const std::string& sha256);
  // Bytes of any file have arrived.
  void Step();
  // Changes with each Step.
  uint64_t Steps() const;
  // Nothing will arrive any more.
  void End();
  bool HasEnded() const;
  // Closes all files: none is here any more.
  void Clear();

  struct Piece {
    uint64_t bytes = 0;     // past the offset, that were read
    bool is_whole = false;  // they were the last ones
    bool is_over = false;   // it is not here, and will not be
    uint32_t tries = 0;     // how often it was begun once more
  };
  // Reads at most `most` bytes from `offset` on; waits at most `wait` for the first of them. `tries`: of the piece before;
  // the file is over if it was begun once more since.
  Piece Read(const std::string& sha256, uint64_t offset, uint32_t tries, char* to, size_t most,
             std::chrono::milliseconds wait);

 private:
  struct File {
    std::shared_ptr<const common::UniqueFd> fd;
    uint64_t size = 0;
    uint64_t there = 0;
    uint32_t tries = 0;
    bool has_failed = false;  // it will not be had here
  };
  const size_t files_max_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<std::string, File> files_;  // by SHA-256
  size_t open_ = 0;
  uint64_t steps_ = 0;
  bool has_ended_ = false;
};

}  // namespace muster::worker
