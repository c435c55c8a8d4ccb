// Makes a copy of an unpacked tree that a job may change. Shares disk blocks if the file system
// supports it (reflinks), but never makes hard links, which would let the job change the original.
// One thread; blocks.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "tree/write_tree.h"

namespace muster::tree {

struct Materialized {
  uint64_t shared_files = 0;  // reflinked: no bytes were copied
  uint64_t copied_files = 0;
};

// `source` is open, and Unpack wrote it from this manifest. Its bytes are not verified again: FAILED_PRECONDITION
// only if a file is missing, is not a regular file or has another size. Other errors as WriteTree.
absl::Status Materialize(const Manifest& manifest, int source, const TreeTarget& target,
                         Materialized* done);

}  // namespace muster::tree
