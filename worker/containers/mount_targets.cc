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

// As the image leads to them where those of `before` are mounted.
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
          StrCat("links of it lead in a circle, or out of another mount, at ", target));
    paths.push_back(*std::move(path));
  }
  return paths;
}

// One whose target lies in another's goes into the outermost of those, so that the runtime looks nothing
// up in what the job can change.
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
  // What lies in a mount is not the image's, and a mount may itself be where a link of the image leads.
  bool is_settled = false;
  for (int round = 0; round <= spec.mounts_size() && !is_settled; ++round) {
    ASSIGN_OR_RETURN(std::vector<std::string> again, ResolveOnce(root, spec, paths));
    is_settled = again == paths;
    paths = std::move(again);
  }
  if (!is_settled)
    return absl::InvalidArgumentError("links of it lead from one mount into another and back");
  if (std::set<std::string>(paths.begin(), paths.end()).size() != paths.size())
    return absl::InvalidArgumentError("links of it lead from two mounts to one place");
  MountTargets mounts;
  for (size_t i = 0; i < paths.size(); ++i) mounts.places.push_back(PlaceOf(spec, paths, i));
  mounts.paths = std::move(paths);
  return mounts;
}

}  // namespace muster::worker
