// The job index in the journal's SQLite file, on a separate connection that never writes or
// checkpoints. One query at a time.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/sqlite/archive/archive_rows.h"
#include "coordinator/sqlite/database/database.h"
#include "coordinator/stores/blob_store.h"
#include "coordinator/stores/job_index.h"

namespace muster::coordinator {

class SqliteJobIndex final : public JobIndex {
 public:
  // Call after the tables were created. `archive`: of the records that have left them.
  static absl::StatusOr<std::unique_ptr<JobIndex>> Open(const std::string& path,
                                                        std::shared_ptr<const BlobStore> archive);

  absl::Status Keys(const KeySink& sink) override;
  absl::StatusOr<std::optional<v1::JobRecord>> Find(uint64_t id) override;
  absl::StatusOr<std::optional<v1::JobRecord>> FindIdentity(uint64_t id) override;
  absl::StatusOr<std::optional<uint64_t>> FindNamed(const std::string& name) override;
  absl::StatusOr<std::vector<uint64_t>> FindLabeled(const std::string& label) override;
  absl::StatusOr<std::vector<NamedJob>> FindPrefix(const std::string& prefix,
                                                   uint32_t limit) override;
  absl::StatusOr<std::vector<std::pair<uint64_t, std::string>>> Owners() override;
  absl::StatusOr<uint64_t> Newest(const std::string& owner_key) override;
  absl::StatusOr<std::vector<v1::JobSummary>> List(const Filter& filter) override;
  absl::StatusOr<std::vector<v1::Event>> Events(const EventRange& range) override;
  absl::StatusOr<uint64_t> BeforeNewest(const EventRange& range) override;
  absl::StatusOr<FinishedCounts> CountFinished(int64_t ended_before_ms,
                                               int64_t ended_after_ms) override;
  absl::StatusOr<std::vector<RemoveInput::Job>> Oldest(uint32_t count) override;
  absl::StatusOr<std::vector<std::string>> Referenced(
      const std::vector<std::string>& blobs) override;
  absl::StatusOr<std::vector<std::string>> BlobsOf(uint64_t job) override;
  absl::StatusOr<bool> HasCode(const CodeName& code) override;
  absl::Status CheckWhole() override;
  bool NeedsWholeCheck() override;

 private:
  SqliteJobIndex(std::string path, std::shared_ptr<const BlobStore> archive)
      : path_(std::move(path)), archive_(std::move(archive)) {}
  absl::StatusOr<std::optional<v1::JobRecord>> ParseRecord(uint64_t id,
                                                           std::string_view bytes) const;
  // What of the range's job has left the table.
  absl::StatusOr<std::optional<ArchivedPart>> PartOf(const EventRange& range);
  absl::StatusOr<std::vector<v1::Event>> EventRows(const EventRange& range);
  // A query for columns of the range's events; `order` ends it, and ?5 in it is `newest`.
  absl::StatusOr<Statement> Ranged(const std::string& columns, const EventRange& range,
                                   const std::string& order);

  const std::string path_;
  const std::shared_ptr<const BlobStore> archive_;
  std::mutex mutex_;  // guards the connection
  std::unique_ptr<Database> database_;
};

}  // namespace muster::coordinator
