// Decides which connection of this process writes into the database next, so that they never block each other
// in SQLite itself: SQLite makes waiting connections poll, so a busy writer would starve the others.
//
// The journal goes first; the others in the order in which they came. While some of them wait, the
// journal goes at most kJournalInARow times before one of them does. Any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/sqlite/database/database.h"
#include "coordinator/stores/commit_log.h"

namespace muster::coordinator {

class WriteTurns {
 public:
  static constexpr int kJournalInARow = 4;
  // How long the journal waits for the database before it reports that; others fail after this
  // time.
  static constexpr std::chrono::milliseconds kTimeout{5'000};

  // `log`: what every transaction is first added to; null: no other coordinator has a copy. Outlives this.
  explicit WriteTurns(std::chrono::milliseconds timeout = kTimeout, CommitLog* log = nullptr)
      : timeout_(timeout), log_(log) {}
  std::chrono::milliseconds Timeout() const { return timeout_; }
  CommitLog* Log() const { return log_; }

  // Lasts until it is destroyed.
  class Turn {
   public:
    Turn(Turn&& other) noexcept;
    Turn& operator=(Turn&&) = delete;
    ~Turn();

   private:
    friend class WriteTurns;
    explicit Turn(WriteTurns& turns) : turns_(&turns) {}
    WriteTurns* turns_;
  };

  // The journal's turn. nullopt: another writer is still busy after Timeout(), so call it again. Until then no
  // other writer gets ahead of the journal.
  std::optional<Turn> TakeForJournal();
  // The journal will not ask again.
  void WithdrawJournal();
  Turn Take();
  // For tests.
  struct Queue {
    size_t others = 0;  // that wait
    bool journal_waits = false;
    uint64_t journal_turns = 0;  // that it has had
  };
  Queue Look();

  // Takes a turn and writes in one transaction: everything or, on an error, nothing.
  absl::Status Write(Database& database, const std::function<absl::Status()>& work);

 private:
  bool IsJournalNext() const;
  void End();

  const std::chrono::milliseconds timeout_;
  CommitLog* const log_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool is_taken_ = false;
  bool journal_waits_ = false;
  uint64_t journal_turns_ = 0;
  int journal_in_a_row_ = 0;  // while others waited
  uint64_t next_ticket_ = 0;
  std::deque<uint64_t> waiting_;  // tickets
};

// A connection for a store that writes in its turns. The journal's connection checkpoints.
absl::StatusOr<std::unique_ptr<Database>> OpenForTurns(const std::string& path,
                                                       const WriteTurns& turns,
                                                       const std::string& more_pragmas = {});

// A connection that only reads, beside those.
absl::StatusOr<std::unique_ptr<Database>> OpenReader(const std::string& path,
                                                     const std::string& more_pragmas = {});

// BEGIN IMMEDIATE, the work, COMMIT; a rollback if one of them fails. The caller has the turn. With a log, what the
// work has changed is added there before it is committed here.
absl::Status Transact(Database& database, const std::function<absl::Status()>& work,
                      CommitLog* log = nullptr);

}  // namespace muster::coordinator
