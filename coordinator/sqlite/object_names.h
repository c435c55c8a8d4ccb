// The tables `objects`, `sent_objects`, `doomed_objects` and `object_uploads` (stores/object_names.h).
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
#include "coordinator/stores/object_names.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

class SqliteObjectNames final : public ObjectNames {
 public:
  // The database has its schema. `clock`: the coordinator's lived clock.
  static absl::StatusOr<std::unique_ptr<ObjectNames>> Open(const Paths& paths,
                                                           std::shared_ptr<WriteTurns> turns,
                                                           const common::Clock& clock);
  absl::StatusOr<std::optional<NamedObject>> Find(const std::string& sha256) const override;
  absl::StatusOr<std::optional<NamedObject>> FindSent(uint64_t job,
                                                      const std::string& sha256) const override;
  absl::Status Name(const std::string& sha256, const NamedObject& object) override;
  absl::StatusOr<std::optional<SentUpload>> FindUpload(const std::string& sender,
                                                       const std::string& sha256) const override;
  absl::StatusOr<size_t> CountUploads(const std::string& sender) const override;
  absl::StatusOr<SentUpload> KeepUpload(const std::string& sender, const std::string& sha256,
                                        const SentUpload& upload) override;
  absl::StatusOr<bool> NameUpload(const std::string& sender, uint64_t job,
                                  const std::string& sha256, const SentUpload& upload) override;
  absl::Status DropUpload(const std::string& sender, const std::string& sha256,
                          const std::string& key) override;
  absl::Status DropUploadsBefore(int64_t lived_ms) override;
  absl::StatusOr<bool> Doom(const std::string& sha256) override;
  absl::Status DoomSent(uint64_t job) override;
  absl::StatusOr<std::vector<std::string>> NamedBefore(int64_t lived_ms) const override;
  absl::StatusOr<std::vector<std::string>> DoomedBefore(int64_t lived_ms,
                                                        size_t most) const override;
  absl::Status Forget(const std::vector<std::string>& keys) override;
  absl::StatusOr<std::vector<std::string>> Unknown(
      const std::vector<std::string>& keys) const override;

 private:
  SqliteObjectNames(std::shared_ptr<WriteTurns> turns, const common::Clock& clock)
      : turns_(std::move(turns)), clock_(clock) {}
  absl::StatusOr<std::optional<NamedObject>> Read(Database& database,
                                                  const std::string& sha256) const;
  absl::StatusOr<std::optional<NamedObject>> ReadSent(Database& database, uint64_t job,
                                                      const std::string& sha256) const;
  absl::StatusOr<std::optional<SentUpload>> ReadUpload(Database& database,
                                                       const std::string& sender,
                                                       const std::string& sha256) const;
  // Within a transaction.
  absl::Status DoomKey(const std::string& key);
  // The rows of sent_objects of which `column` has this value.
  template <typename Value>
  absl::StatusOr<bool> DoomSentWhere(const std::string& column, const Value& value);
  absl::Status RemoveUpload(const std::string& sender, const std::string& sha256,
                            const std::string& key);
  absl::StatusOr<std::vector<std::string>> Texts(const std::string& sql, int64_t one,
                                                 int64_t two) const;

  const std::shared_ptr<WriteTurns> turns_;
  const common::Clock& clock_;
  mutable std::mutex mutex_;  // guards what follows
  std::unique_ptr<Database> reader_;
  std::mutex writing_;  // guards what follows
  std::unique_ptr<Database> writer_;
};

}  // namespace muster::coordinator
