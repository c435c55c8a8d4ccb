#include "coordinator/sqlite/database/write_turns.h"

#include <utility>

#include "common/base/status.h"
#include "coordinator/sqlite/database/changes.h"
#include "coordinator/sqlite/database/replica_tables.h"

namespace muster::coordinator {

WriteTurns::Turn::Turn(Turn&& other) noexcept : turns_(std::exchange(other.turns_, nullptr)) {}

WriteTurns::Turn::~Turn() {
  if (turns_ != nullptr) turns_->End();
}

std::optional<WriteTurns::Turn> WriteTurns::TakeForJournal() {
  std::unique_lock lock(mutex_);
  journal_waits_ = true;
  if (!changed_.wait_for(lock, timeout_, [this] { return !is_taken_ && IsJournalNext(); }))
    return std::nullopt;
  journal_waits_ = false;
  journal_in_a_row_ = waiting_.empty() ? 0 : journal_in_a_row_ + 1;
  ++journal_turns_;
  is_taken_ = true;
  return Turn(*this);
}

void WriteTurns::WithdrawJournal() {
  {
    std::lock_guard lock(mutex_);
    journal_waits_ = false;
  }
  changed_.notify_all();
}

WriteTurns::Turn WriteTurns::Take() {
  std::unique_lock lock(mutex_);
  const uint64_t ticket = next_ticket_++;
  waiting_.push_back(ticket);
  changed_.wait(lock, [this, ticket] {
    return !is_taken_ && waiting_.front() == ticket && !(journal_waits_ && IsJournalNext());
  });
  waiting_.pop_front();
  journal_in_a_row_ = 0;
  is_taken_ = true;
  return Turn(*this);
}

WriteTurns::Queue WriteTurns::Look() {
  std::lock_guard lock(mutex_);
  return {
      .others = waiting_.size(), .journal_waits = journal_waits_, .journal_turns = journal_turns_};
}

bool WriteTurns::IsJournalNext() const {
  return waiting_.empty() || journal_in_a_row_ < kJournalInARow;
}

void WriteTurns::End() {
  {
    std::lock_guard lock(mutex_);
    is_taken_ = false;
  }
  changed_.notify_all();
}

absl::Status WriteTurns::Write(Database& database, const std::function<absl::Status()>& work) {
  const Turn turn = Take();
  return Transact(database, work, log_);
}

namespace {

// Nothing that changes nothing is added.
absl::Status CommitWithLog(Database& database, const std::function<absl::Status()>& work,
                           CommitLog& log) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ChangeRecorder> recorder, ChangeRecorder::Begin(database));
  RETURN_IF_ERROR(work());
  ASSIGN_OR_RETURN(const std::string changes, recorder->Take());
  if (changes.empty()) return database.Execute("COMMIT");
  ASSIGN_OR_RETURN(const uint64_t position, log.Append(changes));
  absl::Status done = MoveReplica(database, position);
  if (done.ok()) done = database.Execute("COMMIT");
  if (!done.ok()) log.FailedHere(done);
  return done;
}

absl::Status Commit(Database& database, const std::function<absl::Status()>& work) {
  RETURN_IF_ERROR(work());
  return database.Execute("COMMIT");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Database>> OpenReader(const std::string& path,
                                                     const std::string& more_pragmas) {
  ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                   Database::Open(path, Database::Mode::kReadOnly));
  RETURN_IF_ERROR(
      database->Execute("PRAGMA query_only=ON; PRAGMA wal_autocheckpoint=0; " + more_pragmas));
  return database;
}

absl::StatusOr<std::unique_ptr<Database>> OpenForTurns(const std::string& path,
                                                       const WriteTurns& turns,
                                                       const std::string& more_pragmas) {
  ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                   Database::Open(path, Database::Mode::kReadWrite, turns.Timeout()));
  RETURN_IF_ERROR(
      database->Execute("PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; PRAGMA mmap_size=0;"
                        "PRAGMA trusted_schema=OFF;" +
                        more_pragmas));
  return database;
}

absl::Status Transact(Database& database, const std::function<absl::Status()>& work,
                      CommitLog* log) {
  RETURN_IF_ERROR(database.Execute("BEGIN IMMEDIATE"));
  const absl::Status done =
      log == nullptr ? Commit(database, work) : CommitWithLog(database, work, *log);
  // The first error is the one to report; even if the rollback fails, nothing is visible.
  if (!done.ok() && database.InTransaction()) database.Execute("ROLLBACK").IgnoreError();
  return done;
}

}  // namespace muster::coordinator
