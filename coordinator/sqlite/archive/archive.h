// The archive's side in SQLite: which rows go next (stores/archive.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/sqlite/archive/archive_rows.h"
#include "coordinator/sqlite/database/database.h"
#include "coordinator/sqlite/database/write_turns.h"
#include "coordinator/stores/archive.h"
#include "coordinator/stores/blob_store.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

class SqliteArchive final : public Archive {
 public:
  struct Options {
    Paths paths;
    Paths archive;  // below which the blobs are made; the same, but for a copy that is being made
    std::string head;  // this coordinator's name; empty: it is alone
    std::shared_ptr<BlobStore> blobs;
    std::shared_ptr<WriteTurns> turns;
  };
  // The database has its schema.
  static absl::StatusOr<std::unique_ptr<Archive>> Open(Options options);

  absl::StatusOr<uint64_t> StateBytes() override;
  absl::StatusOr<uint64_t> MoveOldest(uint64_t bytes) override;
  absl::Status CheckAllHere() override;

 private:
  explicit SqliteArchive(Options options) : options_(std::move(options)) {}
  absl::StatusOr<std::vector<ArchivedPart>> NextJobs();
  absl::StatusOr<std::optional<ArchivedPart>> NextAudit();
  // Puts the blobs, and then moves those rows that are still what was put. Returns how many bytes went.
  absl::StatusOr<uint64_t> Move(std::vector<ArchivedPart> parts, uint64_t bytes);
  absl::StatusOr<bool> IsUnchanged(const ArchivedPart& part);

  const Options options_;
  std::unique_ptr<Database> database_;
  // The finished jobs with an end before this one are archived already, or too large.
  int64_t archived_until_ms_ = 0;
};

}  // namespace muster::coordinator
