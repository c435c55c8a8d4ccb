// Copies a directory that no manifest describes: the tree after a job's setup has changed it. Links stay as
// they are and are never followed, on either side; disk blocks are shared if the file system supports it. One
// thread; blocks.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "tree/write_tree.h"

namespace muster::tree {

struct CopiedTree {
  uint64_t entries = 0;
  uint64_t bytes = 0;
  uint64_t shared_files = 0;  // reflinked: no bytes were copied
  uint64_t left_out = 0;      // sockets, FIFOs and devices
};

// Regular files become 0644, or 0755 if their owner may execute them, directories 0755, without the
// target's umask: set-id bits are lost. `source` is open and does not change meanwhile.
// FAILED_PRECONDITION: it has more than `entries_max` entries, or more levels than a tree may have.
// After an error the written files stay; the caller removes the directory.
absl::Status CopyTree(int source, const TreeTarget& target, uint64_t entries_max, CopiedTree* done);

}  // namespace muster::tree
