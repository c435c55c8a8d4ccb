// The archive's side in SQLite: which rows go next (stores/archive.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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
    std::string head;  // this coordinator's name; empty: it is alone
    std::shared_ptr<const BlobStore> blobs;
    // Makes a blob of bytes, durably, that nothing removes during the next minutes; returns its SHA-256.
    std::function<absl::StatusOr<std::string>(std::string_view)> put;
    std::shared_ptr<WriteTurns> turns;
  };
  // What is moved in one transaction: about so many bytes, and so many jobs.
  static constexpr uint64_t kBytesAtOnce = 8 << 20;
  static constexpr int64_t kJobsAtOnce = 64;
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
  // No job could be moved when the journal's snapshot was this one; -1: some could.
  int64_t exhausted_at_ = -1;
  // Entries of the audit before it are archived already, or seem to lack some.
  int64_t audit_from_ = 1;
};

}  // namespace muster::coordinator
