// The checkpoint files in a data directory that no coordinator uses. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/finding.h"
#include "coordinator/paths.h"
#include "coordinator/stores/blob_uses.h"

namespace muster::coordinator {

struct BlobTotals {
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t missing = 0;
  std::vector<std::string> damaged;  // the SHA-256 that names each
  uint64_t uploads = 0;              // unfinished
  uint64_t upload_bytes = 0;
};

// Each file against its name, or with `quick` only against the size that a job recorded; then what
// `uses` names and is not there. Changes nothing.
absl::Status CheckBlobs(const Paths& paths, const BlobUses& uses, bool quick, const Found& found,
                        BlobTotals* totals);

// Moves a damaged file to damaged/, so that an upload of the same bytes brings a sound one: while
// it is in place, uploads are answered "have it".
absl::Status SetBlobAside(const Paths& paths, const std::string& sha256);

// Unfinished uploads that nothing was added to for BlobStore::kUnusedKept. Their names.
absl::StatusOr<std::vector<std::string>> RemoveStaleUploads(const Paths& paths, int64_t wall_ms);

}  // namespace muster::coordinator
