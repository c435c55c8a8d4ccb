#include "tests/stores/following_index.h"

#include <gtest/gtest.h>

#include "common/base/status.h"
#include "common/text/strings.h"
#include "coordinator/sqlite/database/write_turns.h"
#include "coordinator/sqlite/schema.h"

namespace muster::coordinator {

std::unique_ptr<FollowingIndex> FollowingIndex::Open(const std::string& path) {
  std::unique_ptr<FollowingIndex> index(new FollowingIndex(path));
  index->database_ = *Database::Open(path, Database::Mode::kReadWrite);
  EXPECT_TRUE(PrepareSchema(*index->database_, path).ok());
  index->jobs_ = *JobRows::Make(*index->database_);
  return index;
}

absl::StatusOr<uint64_t> FollowingIndex::Position() {
  ASSIGN_OR_RETURN(const int64_t position,
                   database_->Scalar("SELECT value FROM meta WHERE key = 'position'"));
  return static_cast<uint64_t>(position);
}

absl::Status FollowingIndex::Take(const std::vector<JournalRecord>& turns) {
  return Transact(*database_, [&]() -> absl::Status {
    for (const JournalRecord& turn : turns) RETURN_IF_ERROR(Write(turn));
    return absl::OkStatus();
  });
}

absl::Status FollowingIndex::Write(const JournalRecord& turn) {
  if (turn.events != nullptr && !turn.events->empty()) {
    ASSIGN_OR_RETURN(Statement insert,
                     database_->Prepare("INSERT INTO events VALUES(?1, ?2, ?3, ?4, ?5)"));
    for (const v1::Event& event : *turn.events) {
      const std::string bytes = event.SerializeAsString();
      RETURN_IF_ERROR(insert.Bind(1, static_cast<int64_t>(event.seq()))
                          .Bind(2, static_cast<int64_t>(event.job()))
                          .BindText(3, event.node())
                          .Bind(4, event.at_ms())
                          .BindBlob(5, bytes)
                          .Run());
    }
    RETURN_IF_ERROR(database_->Execute(common::StrCat(
        "INSERT OR REPLACE INTO meta VALUES('position', ", turn.events->back().seq(), ")")));
  }
  if (turn.facts == nullptr) return absl::OkStatus();
  for (const uint64_t job : turn.facts->removed_jobs)
    RETURN_IF_ERROR(database_->Execute(common::StrCat("DELETE FROM events WHERE job = ", job)));
  return jobs_->Take(*turn.facts);
}

}  // namespace muster::coordinator
