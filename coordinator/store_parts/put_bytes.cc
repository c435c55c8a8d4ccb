#include "coordinator/store_parts/put_bytes.h"

#include "common/base/status.h"
#include "common/files/files.h"
#include "common/hash/sha256.h"
#include "common/text/strings.h"

namespace muster::coordinator {

absl::StatusOr<std::string> PutBytes(BlobStore& store, const Paths& paths, std::string_view bytes) {
  const std::string sha256 = common::Sha256Hex(bytes);
  // Put replaces a blob of that name: one that was damaged meanwhile is whole again.
  RETURN_IF_ERROR(common::MakeDirectories(paths.UploadRoot()));
  const std::string file = common::StrCat(paths.UploadRoot(), "/archived-", sha256);
  RETURN_IF_ERROR(common::WriteFileDurably(file, bytes));
  RETURN_IF_ERROR(store.Put(file, sha256));
  return sha256;
}

}  // namespace muster::coordinator
