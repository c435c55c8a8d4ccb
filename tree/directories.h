// Open directories below a root, one per component, none reached through a link: paths in the order
// of a manifest are opened with one openat(2) each, and no link that another process puts in their
// way leads out. One thread.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files/files.h"

namespace muster::tree {

class Directories {
 public:
  // The caller owns `root` and keeps it open as long as this object is used.
  explicit Directories(int root) : root_(root) {}

  // The descriptor of `directory` ("": the root), valid until the next call. -1 with errno on
  // failure: ELOOP or ENOTDIR if there is a link on the way.
  int Enter(std::string_view directory);
  // openat(2) of a path: its last component is not followed either, and a FIFO does not block.
  common::UniqueFd Open(std::string_view path, int flags, int mode = 0);

 private:
  struct Level {
    size_t path_bytes;  // of path_, up to this component
    common::UniqueFd fd;
  };
  const int root_;
  std::string path_;
  std::vector<Level> levels_;
};

// The state of a file when it was inspected. Equal stamps mean the same bytes, if the file system's
// clock has ticked since (see SnapshotIndex).
struct Stamp {
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;
  uint64_t inode = 0;
  bool operator==(const Stamp&) const = default;
};
Stamp StampOf(const struct stat& info);

}  // namespace muster::tree
