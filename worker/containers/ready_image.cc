#include "worker/containers/ready_image.h"

#include <filesystem>

#include "absl/status/status.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"

namespace muster::worker {
namespace fs = std::filesystem;
using common::StrCat;

absl::StatusOr<ReadyImage> ImageOf(const Paths& paths, const AttemptKey& key,
                                   const std::string& name) {
  std::error_code error;
  const std::string hex = fs::read_symlink(paths.AttemptImage(key), error).filename();
  if (error || !common::IsSha256Hex(hex))
    return absl::NotFoundError("the attempt's image was not prepared");
  ReadyImage image;
  image.name = name;
  image.digest = StrCat("sha256:", hex);
  const std::string entry = StrCat(paths.CodeImages(), "/", hex);
  image.root = entry + "/root";
  ASSIGN_OR_RETURN(const std::string config,
                   common::ReadFile(entry + "/config.json", kImageJsonBytesMax));
  ASSIGN_OR_RETURN(image.config, ParseImageConfig(config));
  return image;
}

}  // namespace muster::worker
