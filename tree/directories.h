// Open directories below a root, one per component, none reached through a link: paths that come in
// the order of a manifest are opened with one openat(2) each, and nothing that another process puts
// in their way leads out. One thread.
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
  // `root` stays open, and is the caller's, as long as this is used.
  explicit Directories(int root) : root_(root) {}

  // The descriptor of `directory` ("": the root), valid until the next call. -1: errno says why;
  // ELOOP or ENOTDIR if there is a link on the way.
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

// What a file was when it was looked at. Equal stamps: the same bytes, if the clock that the file
// system stamps with has ticked since (see SnapshotIndex).
struct Stamp {
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;
  uint64_t inode = 0;
  bool operator==(const Stamp&) const = default;
};
Stamp StampOf(const struct stat& info);

}  // namespace muster::tree
