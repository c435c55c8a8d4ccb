// The rows of finished jobs: their summaries for lists, their records, and the blobs and code that
// they refer to. Runs within the caller's transaction, on its thread.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/sqlite/database/database.h"
#include "coordinator/stores/projection.h"

namespace muster::coordinator {

class JobRows {
 public:
  // The statements are prepared once.
  static absl::StatusOr<std::unique_ptr<JobRows>> Make(Database& database);
  absl::Status Take(const TurnFacts& facts);

 private:
  absl::Status Prepare(Database& database);
  absl::Status WriteFinished(const FinishedJob& job, int64_t lived_ms);
  absl::Status WriteCode(const v1::JobRecord& record);
  absl::Status Remove(uint64_t job);

  struct Statements {
    Statement job, record, life, blob_ref, code, remove_job, remove_record, remove_life,
        remove_refs, remove_code, remove_archived;
  };
  std::optional<Statements> statements_;
};

}  // namespace muster::coordinator
