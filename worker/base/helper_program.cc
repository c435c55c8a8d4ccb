#include "worker/base/helper_program.h"

#include <unistd.h>

#include <climits>
#include <filesystem>

#include "absl/status/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"

namespace muster::worker {

absl::StatusOr<std::string> FindHelper(const std::string& name) {
  char self[PATH_MAX] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) {
    return common::ErrnoStatus("cannot read /proc/self/exe");
  }
  const std::filesystem::path directory = std::filesystem::path(self).parent_path();
  for (const std::filesystem::path& candidate :
       {directory / name, directory / "../libexec/muster" / name}) {
    if (access(candidate.c_str(), X_OK) == 0) return candidate.lexically_normal().string();
  }
  return absl::NotFoundError(common::StrCat(name, " is neither in ", directory.string(),
                                            " nor in ../libexec/muster; fix: install it there"));
}

}  // namespace muster::worker
