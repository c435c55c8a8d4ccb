#include "coordinator/store_parts/blob_files.h"

#include <algorithm>
#include <iterator>

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"

namespace muster::coordinator {

absl::StatusOr<std::vector<std::string>> ListBlobFiles(const Paths& paths) {
  std::vector<std::string> blobs;
  const auto directories = common::ListDirectory(paths.BlobRoot());
  if (absl::IsNotFound(directories.status())) return blobs;
  RETURN_IF_ERROR(directories.status());
  for (const std::string& directory : *directories) {
    const auto names = common::ListDirectory(common::StrCat(paths.BlobRoot(), "/", directory));
    if (!names.ok()) continue;
    std::copy_if(names->begin(), names->end(), std::back_inserter(blobs), common::IsSha256Hex);
  }
  return blobs;
}

}  // namespace muster::coordinator
