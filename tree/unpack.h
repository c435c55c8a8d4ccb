// Writes a tree from its objects, verifying each file against the manifest as it is written. One
// thread; blocks.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "tree/placement.h"
#include "tree/write_tree.h"

namespace muster::tree {

// Reads up to `size` bytes of an object from `offset`; 0: it ends there. Files are requested in the
// manifest's order, which is nearly the order of the packs.
using ReadObject = std::function<absl::StatusOr<size_t>(const Object& object, uint64_t offset,
                                                        char* buffer, size_t size)>;

// DATA_LOSS: an object has other bytes than the manifest names. Other errors as WriteTree.
absl::Status Unpack(const Manifest& manifest, const Placement& placement, const ReadObject& read,
                    const TreeTarget& target);

}  // namespace muster::tree
