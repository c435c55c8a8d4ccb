// The blobs that are files below blobs/ of a data directory (local/blob_store.h), whatever their age.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

// Their hashes, in no order; none if there is no such directory.
absl::StatusOr<std::vector<std::string>> ListBlobFiles(const Paths& paths);

}  // namespace muster::coordinator
