// A copy of an unpacked tree, for a job to change: sharing disk blocks where the file system can
// (reflinks), never hard links, which would let the job change the original. One thread; blocks.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "tree/write_tree.h"

namespace muster::tree {

struct Materialized {
  uint64_t shared_files = 0;  // reflinked: no bytes were copied
  uint64_t copied_files = 0;
};

// `source` is open, and what Unpack wrote by this manifest. Its bytes are not verified again: FAILED_PRECONDITION
// only if a file is missing, is not a regular file or has another size. Other errors as WriteTree.
absl::Status Materialize(const Manifest& manifest, int source, const TreeTarget& target,
                         Materialized* done);

}  // namespace muster::tree
