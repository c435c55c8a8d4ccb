// Where the mounts of a job go: in its image, whose links may lead anywhere inside it, or in each other.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "muster/v1/job.pb.h"

namespace muster::worker {

struct MountTargets {
  std::vector<std::string> paths;   // of each mount, with the image's links resolved
  std::vector<std::string> places;  // LaunchContainer.places
};

// `root`: of the image's files. INVALID_ARGUMENT: why a target has no valid path.
absl::StatusOr<MountTargets> ResolveMounts(int root, const v1::ContainerSpec& spec);

}  // namespace muster::worker
