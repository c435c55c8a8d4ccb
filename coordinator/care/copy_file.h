// Copies files into and out of backups. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::coordinator {

struct Place {
  std::string root;
  std::string path;  // below it
};

struct CopiedFile {
  uint64_t size = 0;
  std::string sha256;
  int64_t modified_ns = 0;
};

// Called as data is copied, with the number of bytes since the last call.
using CopyProgress = std::function<void(uint64_t bytes)>;

// Copies at most the first `size` bytes, so a file that has grown meanwhile is copied only up to
// its earlier size. The copy is renamed into place when it is complete; it is not synced. No
// symbolic link is followed below either root. RESOURCE_EXHAUSTED: no room for the copy. DATA_LOSS:
// the original cannot be read from the disk. Nothing is left of the copy after an error.
absl::StatusOr<CopiedFile> CopyFile(const Place& from, const Place& to, uint64_t size,
                                    const CopyProgress& progress);

// What CopyFile would return for the file in its current state.
absl::StatusOr<CopiedFile> HashFile(const Place& file, const CopyProgress& progress);

// Flushes the file system that contains `directory` to disk.
absl::Status SyncFileSystem(const std::string& directory);

}  // namespace muster::coordinator
