// The audit in the database, so that it reaches other coordinators with it (stores/commit_log.h).
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/sqlite/database/database.h"
#include "coordinator/sqlite/database/write_turns.h"
#include "coordinator/stores/audit_store.h"
#include "coordinator/stores/blob_store.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

class SqliteAuditStore final : public AuditStore {
 public:
  // The database has its schema. `archive`: of the parts that have left it.
  static absl::StatusOr<std::unique_ptr<AuditStore>> Open(const Paths& paths,
                                                          std::shared_ptr<WriteTurns> turns,
                                                          std::shared_ptr<const BlobStore> archive);
  absl::StatusOr<End> Recover() override;
  // A part of a database is not removed by hand.
  absl::StatusOr<std::string> LeaveTouched(uint64_t) override { return std::string(); }
  absl::Status Append(const std::vector<const v1::AuditEntry*>& entries) override;
  std::string Place() const override { return path_; }
  absl::StatusOr<std::vector<uint64_t>> Parts() const override;
  absl::StatusOr<AuditPart> Read(uint64_t first) const override;

 private:
  SqliteAuditStore(std::string path, std::shared_ptr<WriteTurns> turns,
                   std::shared_ptr<const BlobStore> archive)
      : path_(std::move(path)), turns_(std::move(turns)), archive_(std::move(archive)) {}
  void Add(std::string_view bytes, int64_t number, AuditPart& part) const;

  const std::string path_;
  const std::shared_ptr<WriteTurns> turns_;
  const std::shared_ptr<const BlobStore> archive_;
  std::unique_ptr<Database> writer_;
  mutable std::mutex mutex_;  // guards what follows
  std::unique_ptr<Database> reader_;
};

}  // namespace muster::coordinator
