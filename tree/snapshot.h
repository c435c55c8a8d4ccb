// Takes a snapshot of a directory: its manifest, its identity and the places of its contents. Reads only files
// that changed since the last snapshot. One thread; blocks. Memory: about 550 bytes per entry.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tree/listing.h"
#include "tree/manifest.h"
#include "tree/placement.h"
#include "tree/stable_read.h"

namespace muster::tree {

struct SnapshotOptions {
  // Where the index is kept: an existing directory that belongs to the user; empty: no index is
  // kept.
  std::string cache_directory;
  int64_t now_ms = 0;  // Unix time, read just before: the index is trusted only for older files
  // Objects of the last snapshot that their store no longer has, and that cannot be produced again
  // (ObjectSource::IsComplete): their contents get new places.
  std::vector<Digest> lost_objects;
  OnRead on_read;  // progress; optional
};

struct SnapshotCounts {
  uint64_t files = 0;
  uint64_t files_read = 0;  // all others were only checked for changes
  uint64_t bytes_read = 0;
  uint64_t files_repacked = 0;  // read although they did not change: their pack was mostly unused
  uint64_t ignored = 0;
};

struct Snapshot {
  Manifest manifest;
  std::string encoded;  // the manifest
  Digest identity;
  Placement placement;
  Listing warnings;  // names that differ only in case; links whose targets are not in the tree
  SnapshotCounts counts;
  std::string index_problem;  // why everything was read, or will be next time; may be empty
};

// INVALID_ARGUMENT: entries that a tree cannot contain, the first ten by name and the number of all.
// RESOURCE_EXHAUSTED: too many entries or bytes. Others: the directory itself cannot be read.
absl::StatusOr<Snapshot> TakeSnapshot(const std::string& root, const SnapshotOptions& options);

}  // namespace muster::tree
