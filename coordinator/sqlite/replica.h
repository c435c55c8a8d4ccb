// A copy of the database (stores/replica.h), on its own connection. No coordinator uses the file meanwhile.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/sqlite/database.h"
#include "coordinator/sqlite/replica_tables.h"
#include "coordinator/stores/paths.h"
#include "coordinator/stores/replica.h"

namespace muster::coordinator {

class SqliteReplica final : public Replica {
 public:
  // Creates the file if there is none.
  static absl::StatusOr<std::unique_ptr<Replica>> Open(const Paths& paths);

  uint64_t Position() const override { return mark_.position; }
  const std::string& Log() const override { return mark_.log; }
  bool IsEmpty() const override { return is_empty_; }
  absl::Status Follow(const std::string& log) override;
  absl::Status Leave() override;
  absl::Status Apply(uint64_t position, std::string_view changes) override;

 private:
  explicit SqliteReplica(std::unique_ptr<Database> database) : database_(std::move(database)) {}
  absl::Status Prepare(const std::string& path);

  const std::unique_ptr<Database> database_;
  ReplicaMark mark_;
  bool is_empty_ = false;
};

class SqliteReplicaHome final : public ReplicaHome {
 public:
  explicit SqliteReplicaHome(Paths paths) : paths_(std::move(paths)) {}
  absl::StatusOr<std::unique_ptr<Replica>> Open() override { return SqliteReplica::Open(paths_); }
  absl::StatusOr<std::string> Stage() override;
  absl::StatusOr<uint64_t> Save(const std::string& to) override;
  absl::Status Replace(const std::string& from, const std::string& log, uint64_t position) override;

 private:
  const Paths paths_;
};

}  // namespace muster::coordinator
