// The audit in the database, so that it reaches other coordinators with it (stores/commit_log.h).
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/sqlite/database.h"
#include "coordinator/sqlite/write_turns.h"
#include "coordinator/stores/audit_store.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

class SqliteAuditStore final : public AuditStore {
 public:
  // Entries that are read at once.
  static constexpr uint64_t kPartEntries = 1'000;

  // The database has its schema.
  static absl::StatusOr<std::unique_ptr<AuditStore>> Open(const Paths& paths,
                                                          std::shared_ptr<WriteTurns> turns);
  absl::StatusOr<End> Recover() override;
  // A part of a database is not removed by hand.
  absl::StatusOr<std::string> LeaveTouched(uint64_t) override { return std::string(); }
  absl::Status Append(const std::vector<const v1::AuditEntry*>& entries) override;
  std::string Place() const override { return path_; }
  absl::StatusOr<std::vector<uint64_t>> Parts() const override;
  absl::StatusOr<AuditPart> Read(uint64_t first) const override;

 private:
  SqliteAuditStore(std::string path, std::shared_ptr<WriteTurns> turns)
      : path_(std::move(path)), turns_(std::move(turns)) {}

  const std::string path_;
  const std::shared_ptr<WriteTurns> turns_;
  std::unique_ptr<Database> writer_;
  mutable std::mutex mutex_;  // guards what follows
  std::unique_ptr<Database> reader_;
};

}  // namespace muster::coordinator
