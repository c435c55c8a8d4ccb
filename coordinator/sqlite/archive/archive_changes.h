// What an entry of the log, or a snapshot of it, means to the archive of a coordinator that follows it: blobs are made
// of rows before these go, and removed with the last row that refers to them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/sqlite/database/database.h"
#include "coordinator/stores/blob_store.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

// Before the changes are applied: makes the blobs of what they move to the archive, durably. Returns those that nothing
// refers to any more afterwards. DATA_LOSS: the rows here are not those that the leader has moved.
absl::StatusOr<std::vector<std::string>> FollowArchive(Database& database, BlobStore& blobs,
                                                       const Paths& paths,
                                                       std::string_view changes);

// Before `newer` replaces `older`: makes the blobs of what has left the state between the two and is a row in `older`.
absl::Status KeepMovedParts(Database& older, Database& newer, BlobStore& blobs, const Paths& paths);

}  // namespace muster::coordinator
