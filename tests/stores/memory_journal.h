// The journal in memory, and the job index that it carries.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "coordinator/base/work_pool.h"
#include "coordinator/stores/job_index.h"
#include "coordinator/stores/journal.h"
#include "coordinator/stores/projection.h"
#include "tests/stores/memory_tables.h"

namespace muster::coordinator {

class MemoryJournal final : public Journal {
 public:
  explicit MemoryJournal(std::shared_ptr<MemoryTables> tables);
  ~MemoryJournal() override { Stop().IgnoreError(); }

  uint64_t Epoch() const override { return epoch_; }
  std::string ClusterId() const override;
  absl::Status Replay(const ReplayCallbacks& sink) override;
  void Start(JournalCallbacks observer) override;
  void Append(JournalRecord record) override;
  size_t PendingBytes() const override { return pending_bytes_; }
  absl::Status Stop() override;

 private:
  void Post(JournalRecord record, size_t bytes);
  void Commit(const JournalRecord& record, size_t bytes);
  absl::Status Write(const JournalRecord& record);
  void Carry(const TurnFacts& facts);

  const std::shared_ptr<MemoryTables> tables_;
  uint64_t epoch_ = 0;
  JournalCallbacks observer_;
  std::atomic<size_t> pending_bytes_ = 0;
  absl::Status failure_;  // the pool's thread, and after it has ended
  std::mutex mutex_;      // guards what follows
  bool is_started_ = false;
  std::vector<std::pair<JournalRecord, size_t>> early_;  // appended before the start
  WorkPool thread_{1};
};

class MemoryJobIndex final : public JobIndex {
 public:
  explicit MemoryJobIndex(std::shared_ptr<MemoryTables> tables) : tables_(std::move(tables)) {}

  absl::Status Keys(const KeySink& sink) override;
  absl::StatusOr<std::optional<v1::JobRecord>> Find(uint64_t id) override;
  absl::StatusOr<std::optional<v1::JobRecord>> FindIdentity(uint64_t id) override;
  absl::StatusOr<std::optional<uint64_t>> FindNamed(const std::string& name) override;
  absl::StatusOr<std::vector<uint64_t>> FindLabeled(const std::string& label) override;
  absl::StatusOr<std::vector<NamedJob>> FindPrefix(const std::string& prefix,
                                                   uint32_t limit) override;
  absl::StatusOr<uint64_t> Newest(const std::string& owner_key) override;
  absl::StatusOr<std::vector<std::pair<uint64_t, std::string>>> Owners() override;
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
  absl::Status CheckWhole() override { return absl::OkStatus(); }
  bool NeedsWholeCheck() override { return false; }

 private:
  const std::shared_ptr<MemoryTables> tables_;
};

}  // namespace muster::coordinator
