#include "worker/containers/mount_targets.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "common/job/code.h"
#include "common/kernel/shim_protocol.h"
#include "common/text/relative_path.h"
#include "common/text/strings.h"
#include "worker/containers/find_in_image.h"

namespace muster::worker {
namespace {

using common::IsWithin;
using common::StrCat;
using job::TargetOf;

// Resolves each target through the image's links, with the targets in `before` already mounted.
absl::StatusOr<std::vector<std::string>> ResolveOnce(int root, const v1::ContainerSpec& spec,
                                                     const std::vector<std::string>& before) {
  std::vector<std::string> paths;
  for (int i = 0; i < spec.mounts_size(); ++i) {
    std::set<std::string> others(before.begin(), before.end());
    if (!before.empty()) others.erase(before[static_cast<size_t>(i)]);
    const std::string target = TargetOf(spec.mounts(i));
    std::optional<std::string> path = PathWithoutLinks(root, target, others);
    if (!path.has_value())
      return absl::InvalidArgumentError(
          StrCat("its links form a loop, or lead out of another mount, at ", target));
    paths.push_back(*std::move(path));
  }
  return paths;
}

// A mount whose target lies inside other mounts is placed in the outermost of them before the runtime
// starts, so that the runtime never looks up a path that the job can change.
std::string PlaceOf(const v1::ContainerSpec& spec, const std::vector<std::string>& paths,
                    size_t mount) {
  size_t outermost = mount;
  for (size_t other = 0; other < paths.size(); ++other) {
    if (other != mount && IsWithin(paths[mount], paths[other]) &&
        paths[other].size() < paths[outermost].size())
      outermost = other;
  }
  const bool is_read_only = spec.mounts(static_cast<int>(mount)).read_only();
  const char how = is_read_only ? common::kNeededToRead : common::kNeededToWrite;
  return StrCat(std::string(1, how), outermost, paths[mount].substr(paths[outermost].size()));
}

}  // namespace

absl::StatusOr<MountTargets> ResolveMounts(int root, const v1::ContainerSpec& spec) {
  ASSIGN_OR_RETURN(std::vector<std::string> paths, ResolveOnce(root, spec, {}));
  // Files in a mount are not the image's, and a link of the image may lead to a mount: repeat until the
  // paths no longer change.
  bool is_settled = false;
  for (int round = 0; round <= spec.mounts_size() && !is_settled; ++round) {
    ASSIGN_OR_RETURN(std::vector<std::string> again, ResolveOnce(root, spec, paths));
    is_settled = again == paths;
    paths = std::move(again);
  }
  if (!is_settled)
    return absl::InvalidArgumentError("its links lead from one mount into another and back");
  if (std::set<std::string>(paths.begin(), paths.end()).size() != paths.size())
    return absl::InvalidArgumentError("its links lead two mounts to the same path");
  MountTargets mounts;
  for (size_t i = 0; i < paths.size(); ++i) mounts.places.push_back(PlaceOf(spec, paths, i));
  mounts.paths = std::move(paths);
  return mounts;
}

}  // namespace muster::worker
