// The objects of a snapshot as streams to be uploaded, read from the directory itself; no copy of it is made.
// All bytes of a file are verified again before its last one is returned: a file that changed since the
// snapshot is an error, never a wrong object. One thread; blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "tree/directories.h"
#include "tree/manifest.h"
#include "tree/placement.h"

namespace muster::tree {

class ObjectSource;

class ObjectStream {
 public:
  // Reads up to `size` of the next bytes; 0: the object is complete. ABORTED names a file that
  // changed.
  absl::StatusOr<size_t> Read(char* buffer, size_t size);

 private:
  friend class ObjectSource;
  absl::Status LoadPiece();
  absl::StatusOr<size_t> ReadFile(char* buffer, size_t size);

  ObjectSource* source_ = nullptr;
  uint32_t object_ = 0;
  uint64_t offset_ = 0;  // of the next byte
  // For a pack: the piece that has the next byte.
  size_t piece_ = 0;
  std::string bytes_;
  // For a file that is its own object:
  common::UniqueFd fd_;
  common::Sha256 hash_;
};

class ObjectSource {
 public:
  // All three must outlive it and its streams. `root`: the directory, open.
  ObjectSource(int root, const Manifest& manifest, const Placement& placement);

  // False: a part of the object belongs to no file any more, so it cannot be made again. If its
  // store does not have it either, take another snapshot with SnapshotOptions::lost_objects.
  bool IsComplete(uint32_t object) const;

  // The object's bytes from `offset` on, at most its size: an upload resumes where it broke off. Bytes before
  // `offset` are read too if they belong to the same file.
  absl::StatusOr<ObjectStream> Open(uint32_t object, uint64_t offset = 0);

 private:
  friend class ObjectStream;
  struct Piece {
    uint64_t offset = 0;
    uint32_t entry = 0;
  };
  const Entry& EntryOf(const Piece& piece) const { return manifest_.entries[piece.entry]; }

  const Manifest& manifest_;
  const Placement& placement_;
  Directories directories_;
  std::vector<std::vector<Piece>> pieces_;  // of each object, in order
};

}  // namespace muster::tree
