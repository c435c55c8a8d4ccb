// The job's image on this node: taken from the cache, or fetched, verified and unpacked into it. A
// thread that may block.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/confinement/rank_account.h"
#include "worker/containers/ready_image.h"
#include "worker/preparation/preparation_context.h"
#include "worker/preparation/progress.h"

namespace muster::worker {

struct CachedImage {
  CodeCache::Pin pin;
  std::string path;  // of the entry
  ReadyImage image;
};

// `account`: its rights decide which oci:DIRECTORY may be read. INVALID_ARGUMENT, NOT_FOUND,
// FAILED_PRECONDITION, DATA_LOSS: it would fail again; other errors are the node's. Messages name the
// node, the image, the reason and the fix.
absl::StatusOr<CachedImage> GetImage(PreparationContext& context, const std::string& name,
                                     const RankAccount& account, const Progress& progress);

// From now on the attempt uses it.
absl::Status UseImage(const Paths& paths, const AttemptKey& key, const CachedImage& image);

}  // namespace muster::worker
