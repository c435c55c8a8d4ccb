// An image that is unpacked on this node, for starting ranks in it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "worker/base/paths.h"
#include "worker/containers/image_manifest.h"

namespace muster::worker {

struct ReadyImage {
  std::string name;    // as the job names it
  std::string digest;  // of what the name stood for: "sha256:…"
  std::string root;    // its root file system, which belongs to the worker: never written to
  ImageConfig config;
};

// The image that a prepared attempt uses. NOT_FOUND: none.
absl::StatusOr<ReadyImage> ImageOf(const Paths& paths, const AttemptKey& key,
                                   const std::string& name);
}  // namespace muster::worker
