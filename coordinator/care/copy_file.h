// Copies of whole files into and out of backups. One thread.
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

// Told of bytes as they are copied.
using CopyProgress = std::function<void(uint64_t bytes)>;

// At most the first `size` bytes; a file that has grown meanwhile is copied as far as it was. The
// copy appears by rename, after its last byte; it is not synced. No symbolic link is followed
// below either root. RESOURCE_EXHAUSTED: no room for the copy; DATA_LOSS: the disk does not give the
// original's bytes. Nothing is left of the copy then.
absl::StatusOr<CopiedFile> CopyFile(const Place& from, const Place& to, uint64_t size,
                                    const CopyProgress& progress);

// What CopyFile would have said of the file as it is.
absl::StatusOr<CopiedFile> HashFile(const Place& file, const CopyProgress& progress);

// Everything that was written to the file system that holds `directory` is on the disk.
absl::Status SyncFileSystem(const std::string& directory);

}  // namespace muster::coordinator
