// Who has shown which blob: an empty file in uploads/proven/OWNER for each. A query touches the file.
// Any thread; several may add and query at once.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/store_parts/file_age.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

class UploadProofs {
 public:
  explicit UploadProofs(const Paths& paths) : root_(paths.ProofRoot()) {}

  // Durable: a worker that reports a part does not show its bytes again.
  absl::Status Add(const std::string& owner, const std::string& sha256) const;
  // INVALID_ARGUMENT: not a name or not a hash.
  absl::StatusOr<bool> Has(const std::string& owner, const std::string& sha256) const;
  // Removes proofs that were not queried for kUnusedKept.
  void RemoveUnused(const FileAge& age) const;

 private:
  const std::string root_;
};

}  // namespace muster::coordinator
