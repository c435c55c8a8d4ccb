// Checks the checkpoint files of a data directory that no coordinator is using. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/base/damage.h"
#include "coordinator/stores/blob_uses.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

struct BlobTotals {
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t missing = 0;
  std::vector<std::string> damaged;  // their SHA-256, which is also their name
  uint64_t uploads = 0;              // unfinished
  uint64_t upload_bytes = 0;
};

// Checks each file against the SHA-256 in its name, or with `quick` only against the size that a
// job recorded, then looks for files that are in `uses` but missing. Changes nothing.
absl::Status CheckBlobs(const Paths& paths, const BlobUses& uses, bool quick, const OnDamage& found,
                        BlobTotals* totals);

// Moves a damaged file to damaged/, so that the same bytes can be uploaded again: while it is in
// place, the coordinator answers uploads with "have it".
absl::Status SetBlobAside(const Paths& paths, const std::string& sha256);

// Removes unfinished uploads that have not grown for kUnusedKept; returns their names.
absl::StatusOr<std::vector<std::string>> RemoveStaleUploads(const Paths& paths, int64_t wall_ms);

}  // namespace muster::coordinator
