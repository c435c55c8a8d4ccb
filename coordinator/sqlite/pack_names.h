// The tables `packs` and `merged_packs` (stores/pack_names.h).
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/sqlite/database/database.h"
#include "coordinator/sqlite/database/write_turns.h"
#include "coordinator/stores/pack_names.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

class SqlitePackNames final : public PackNames {
 public:
  // The database has its schema. `clock`: the coordinator's lived clock. `prefix`: of all keys.
  static absl::StatusOr<std::unique_ptr<PackNames>> Open(const Paths& paths,
                                                         std::shared_ptr<WriteTurns> turns,
                                                         const common::Clock& clock,
                                                         std::string prefix);
  absl::StatusOr<std::vector<LanePacks>> Lanes(PackKind kind, uint64_t job,
                                               std::optional<uint32_t> attempt) const override;
  absl::StatusOr<std::optional<LanePacks>> Find(const PackLane& lane) const override;
  absl::StatusOr<uint64_t> BytesOf(PackKind kind, uint64_t job) const override;
  absl::Status Record(const std::vector<RecordedPack>& packs) override;
  absl::Status Merge(const PackMerge& merge) override;
  absl::StatusOr<std::vector<uint64_t>> Jobs(PackKind kind) const override;
  absl::StatusOr<bool> DoomSome(PackKind kind, uint64_t job) override;
  absl::StatusOr<std::vector<std::string>> Unknown(
      const std::vector<std::string>& keys) const override;

 private:
  SqlitePackNames(std::shared_ptr<WriteTurns> turns, const common::Clock& clock, std::string prefix)
      : turns_(std::move(turns)), clock_(clock), prefix_(std::move(prefix)) {}
  // Within a transaction.
  absl::Status RecordOne(const RecordedPack& pack);
  absl::StatusOr<bool> IsCurrent(const PackMerge& merge) const;
  absl::Status Replace(const PackMerge& merge);
  // From LanePacks.bytes.
  absl::Status Free(const PackLane& lane, uint64_t bytes);
  // It is deleted so much later than others that are doomed.
  absl::Status Doom(const PackLane& lane, const std::string& name, int64_t kept_ms = 0);
  absl::Status DoomLane(const LanePacks& packs);

  const std::shared_ptr<WriteTurns> turns_;
  const common::Clock& clock_;
  const std::string prefix_;
  mutable std::mutex mutex_;  // guards what follows
  std::unique_ptr<Database> reader_;
  std::mutex writing_;  // guards what follows
  std::unique_ptr<Database> writer_;
};

}  // namespace muster::coordinator
