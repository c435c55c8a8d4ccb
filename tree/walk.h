// Finds everything below a directory that belongs to its tree: not ignored, and of a kind that a
// tree can contain. Each directory is read once and each entry inspected once, with openat(2) and
// fstatat(2); links are not followed. One thread; blocks.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tree/directories.h"
#include "tree/listing.h"
#include "tree/manifest.h"

namespace muster::tree {

struct Found {
  Entry entry;  // a file's content is not known yet
  Stamp stamp;
};

struct Walk {
  std::vector<Found> found;  // in a manifest's order
  Listing refused;  // devices, sockets, FIFOs, setuid files, names that no tree can contain …
  // Names that differ only in the case of ASCII letters. Other letters, and different Unicode forms of one
  // letter, are not compared.
  Listing warnings;
  uint64_t ignored = 0;  // entries; those below an ignored directory are not counted
};

// `.git` is never part of a tree. A directory is part of it if something in the directory is, or if
// the directory is empty, so ignored files leave no trace. RESOURCE_EXHAUSTED: more than
// kEntriesMax entries. All other problems are in `refused`.
absl::Status WalkTree(int root, Walk* walk);

}  // namespace muster::tree
