// The job's tree on this node: taken from the cache, or fetched and unpacked into it. A thread that may
// block.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/files/files.h"
#include "muster/v1/job.pb.h"
#include "tree/manifest.h"
#include "worker/preparation/preparation_context.h"
#include "worker/preparation/progress.h"

namespace muster::worker {

struct CachedTree {
  CodeCache::Pin pin;
  std::string path;  // of the entry
  tree::Manifest manifest;
  common::UniqueFd directory;  // the unpacked tree
  uint64_t fetched_bytes = 0;  // 0: it was there
};

// Names belong to a project: what another project has cached is neither used nor revealed.
// DATA_LOSS, NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT: it would fail again; other errors are the
// node's. Messages name the node and the fix.
absl::StatusOr<CachedTree> GetTree(PreparationContext& context, const std::string& project,
                                   const v1::CodeTree& code, const Progress& progress);

// Bytes on the disk, rounded up to blocks.
uint64_t DiskBytes(const tree::Manifest& manifest);

}  // namespace muster::worker
