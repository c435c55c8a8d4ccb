// Files below a directory that others may have written to: no symbolic link below it is followed,
// and nothing but regular files is opened. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/files.h"

namespace muster::coordinator {

struct TreeFile {
  std::string path;  // below the root
  uint64_t size = 0;
  int64_t modified_ns = 0;
};

struct TreeVisitor {
  std::function<absl::Status(const TreeFile&)> file;
  // Neither a regular file nor a directory: a symbolic link, a FIFO, a device.
  std::function<absl::Status(const std::string& path)> odd;
  // A directory that is about to be read.
  std::function<void(const std::string& path)> directory = nullptr;
  // A directory that cannot be read. Without this callback, the walk ends with the reason.
  std::function<absl::Status(const std::string& path, const absl::Status& why)> unreadable =
      nullptr;
};

// Every file of ROOT/PATH, at most eight directories deep; `path` may be a file. Skips files that
// are missing or vanish meanwhile. Stops at the visitor's first error.
absl::Status WalkFiles(const std::string& root, const std::string& path,
                       const TreeVisitor& visitor);

// The bytes of all regular files below it that can be read.
uint64_t BytesBelow(const std::string& root, const std::string& path);

// Opens ROOT/PATH component by component. INVALID_ARGUMENT when one of them is a symbolic link, or
// the last is not a regular file. With `make_directories`, missing directories are created.
absl::StatusOr<common::UniqueFd> OpenBelow(const std::string& root, const std::string& path,
                                           int flags, bool make_directories = false);

}  // namespace muster::coordinator
