// A blob of bytes that are in memory.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "coordinator/stores/blob_store.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

// Durable when it returns. Returns the SHA-256. `paths`: where the file is made before it is put.
absl::StatusOr<std::string> PutBytes(BlobStore& store, const Paths& paths, std::string_view bytes);

}  // namespace muster::coordinator
