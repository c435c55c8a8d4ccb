// A copy of the database (stores/replica.h), on its own connection. No coordinator uses the file meanwhile.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "coordinator/sqlite/database/database.h"
#include "coordinator/sqlite/database/replica_tables.h"
#include "coordinator/stores/blob_store.h"
#include "coordinator/stores/paths.h"
#include "coordinator/stores/replica.h"

namespace muster::coordinator {

class SqliteReplica final : public Replica {
 public:
  // Creates the file if there is none. `blobs`: where its archive is
  // (archive_changes.h); null: in a store that all coordinators reach.
  static absl::StatusOr<std::unique_ptr<Replica>> Open(const Paths& paths,
                                                       std::shared_ptr<BlobStore> blobs);

  uint64_t Position() const override { return mark_.position; }
  const std::string& Log() const override { return mark_.log; }
  bool IsEmpty() const override { return is_empty_; }
  absl::Status Follow(const std::string& log) override;
  absl::Status Leave() override;
  absl::Status Apply(uint64_t position, std::string_view changes) override;

 private:
  SqliteReplica(Paths paths, std::shared_ptr<BlobStore> blobs, std::unique_ptr<Database> database)
      : paths_(std::move(paths)), blobs_(std::move(blobs)), database_(std::move(database)) {}
  absl::Status Prepare(const std::string& path);

  const Paths paths_;
  const std::shared_ptr<BlobStore> blobs_;
  const std::unique_ptr<Database> database_;
  ReplicaMark mark_;
  bool is_empty_ = false;
};

class SqliteReplicaHome final : public ReplicaHome {
 public:
  SqliteReplicaHome(Paths paths, std::shared_ptr<BlobStore> blobs)
      : paths_(std::move(paths)), blobs_(std::move(blobs)) {}
  absl::StatusOr<std::unique_ptr<Replica>> Open() override {
    return SqliteReplica::Open(paths_, blobs_);
  }
  absl::StatusOr<std::string> Stage() override;
  absl::StatusOr<uint64_t> Save(const std::string& to) override;
  absl::Status Replace(const std::string& from, const std::string& log, uint64_t position) override;

 private:
  absl::Status KeepArchived(const std::string& newer);

  const Paths paths_;
  const std::shared_ptr<BlobStore> blobs_;
};

}  // namespace muster::coordinator
