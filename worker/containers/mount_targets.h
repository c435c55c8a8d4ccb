// Where the mounts of a job go: in its image, whose links may lead anywhere in it, and in one another.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "muster/v1/job.pb.h"

namespace muster::worker {

struct MountTargets {
  std::vector<std::string> paths;   // of each mount: free of links of the image
  std::vector<std::string> places;  // LaunchContainer.places
};

// `root`: of the image's files. INVALID_ARGUMENT: why there is no such place.
absl::StatusOr<MountTargets> ResolveMounts(int root, const v1::ContainerSpec& spec);

}  // namespace muster::worker
