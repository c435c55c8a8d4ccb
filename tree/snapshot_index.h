// The index of the last snapshot of a directory, so that the next one reads only changed files. It is a cache
// file, which may be missing, damaged or of another version at any time, and is trusted only for files whose
// stamp is old enough (IsRacy). docs/formats.md has the bytes. One thread; blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tree/directories.h"
#include "tree/placement.h"

namespace muster::tree {

struct IndexedFile {
  std::string path;
  Stamp stamp;
  Digest content;
  Place place;
};

struct SnapshotIndex {
  int64_t taken_ms = 0;  // Unix time when the snapshot began
  std::vector<Object> objects;
  std::vector<IndexedFile> files;  // in a manifest's order
};

// Git's rule: a file that was last changed at about the time when the index was made may have
// changed once more without a new stamp. File systems stamp with a clock that ticks every few
// milliseconds, or, where no nanoseconds are seen, every one or two seconds.
bool IsRacy(const Stamp& stamp, int64_t taken_ms);

// The file in the cache directory for a root, given by its absolute path without links.
std::string IndexPath(const std::string& cache_directory, const std::string& root);

std::string EncodeIndex(const std::string& root, const SnapshotIndex& index);
// DATA_LOSS: damaged, of another version or of another root.
absl::StatusOr<SnapshotIndex> DecodeIndex(std::string_view bytes, const std::string& root);

}  // namespace muster::tree
