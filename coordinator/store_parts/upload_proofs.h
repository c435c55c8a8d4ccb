// Who has shown which blob: an empty file in uploads/proven/OWNER for each. Touched when it is asked
// for. Any thread; several may add and ask at once.
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
  // Those that nobody has asked for in so long.
  void RemoveUnused(const FileAge& age) const;

 private:
  const std::string root_;
};

}  // namespace muster::coordinator
