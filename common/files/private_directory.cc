#include "common/files/private_directory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/text/strings.h"

namespace muster::common {
namespace {

constexpr mode_t kPassable = 0711;

}  // namespace

absl::Status MakePrivateDirectory(const std::string& path) {
  std::filesystem::path own = path;
  if (!own.has_filename()) own = own.parent_path();  // it ended with a slash
  std::filesystem::path built;
  for (const std::filesystem::path& part : own.parent_path()) {
    built /= part;
    if (mkdir(built.c_str(), kPassable) != 0) continue;  // the error is reported below
    // The umask has removed permissions; O_NOFOLLOW, so that a link which another user put in its
    // place gets none.
    const UniqueFd fd(open(built.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd.valid() || fchmod(fd.get(), kPassable) != 0)
      return ErrnoStatus(StrCat("cannot open ", built.string()));
  }
  return MakeDirectories(own.string());
}

}  // namespace muster::common
