// The index of finished jobs in a separate SQLite file, which follows a journal that does not carry
// it: for the tests of that contract.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/sqlite/database/database.h"
#include "coordinator/sqlite/job_rows.h"
#include "coordinator/stores/projection.h"

namespace muster::coordinator {

class FollowingIndex final : public Projection {
 public:
  // Opens or creates the file; SqliteJobIndex reads it.
  static std::unique_ptr<FollowingIndex> Open(const std::string& path);

  std::string Place() const override { return "the index " + path_; }
  absl::StatusOr<uint64_t> Position() override;
  absl::Status Take(const std::vector<JournalRecord>& turns) override;

 private:
  explicit FollowingIndex(std::string path) : path_(std::move(path)) {}
  absl::Status Write(const JournalRecord& turn);

  const std::string path_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<JobRows> jobs_;
};

}  // namespace muster::coordinator
