// Who writes into the database, and when: by counting, not by a clock.
#include "coordinator/sqlite/database/write_turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/problem.h"
#include "coordinator/sqlite/identity_store.h"
#include "coordinator/sqlite/journal.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/stores/opened_journal.h"

namespace muster::coordinator {
namespace {

constexpr std::chrono::milliseconds kShort{20};
constexpr std::chrono::milliseconds kLong{60'000};

void AwaitWaiting(WriteTurns& turns, size_t count) {
  while (turns.Look().others < count) std::this_thread::yield();
}

TEST(WriteTurnsTest, TheJournalGoesFirstAndTheOthersInTheirOrder) {
  WriteTurns turns(kLong);
  std::vector<std::string> order;  // written by who has the turn
  std::vector<std::thread> writers;
  {
    const auto first = turns.Take();
    for (const std::string name : {"a", "b", "c"}) {
      writers.emplace_back([&, name] {
        const auto turn = turns.Take();
        order.push_back(name);
      });
      AwaitWaiting(turns, writers.size());
    }
    WriteTurns impatient(kShort);
    const auto held = impatient.Take();
    EXPECT_FALSE(impatient.TakeForJournal().has_value()) << "and its wait has an end";
    writers.emplace_back([&] {
      const auto turn = turns.TakeForJournal();
      order.push_back("journal");
    });
    while (!turns.Look().journal_waits) std::this_thread::yield();
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(order, (std::vector<std::string>{"journal", "a", "b", "c"}));
}

TEST(WriteTurnsTest, AJournalThatAlwaysWritesLetsOthersThrough) {
  WriteTurns turns(kLong);
  std::optional<WriteTurns::Turn> turn = turns.TakeForJournal();
  for (int round = 0; round < 3; ++round) {
    std::atomic<bool> went = false;
    std::thread other([&] {
      const auto own = turns.Take();
      went = true;
    });
    AwaitWaiting(turns, 1);
    int journals = 0;
    while (!went) {
      turn.reset();
      turn.emplace(*turns.TakeForJournal());
      if (!went) ++journals;
    }
    EXPECT_LE(journals, WriteTurns::kJournalInARow);
    other.join();
  }
}

// Two of them, so that one writes while the other looks. With connections that know nothing of each
// other, SQLite let them write thousands of times before the journal.
TEST(WriteTurnsTest, AJournalThatWaitsCommitsBeforeMembersWhoWriteWithoutAPause) {
  TempDir dir;
  const Paths paths(dir.path());
  const auto turns = std::make_shared<WriteTurns>();
  OpenedJournal opened(*OpenSqliteJournal(paths, nullptr, turns));
  opened.Start();
  const auto identities = *SqliteIdentityStore::Open(paths, turns);
  std::atomic<uint64_t> behind = 0;
  std::atomic<uint64_t> ahead = 0;
  std::atomic<bool> is_over = false;
  const auto write = [&](const std::string& owner) {
    v1::Secret secret;
    secret.set_owner(owner);
    secret.set_name("KEY");
    while (!is_over) {
      const WriteTurns::Queue before = turns->Look();
      ASSERT_TRUE(identities->PutSecret(secret).ok());
      if (!before.journal_waits) continue;
      ++(turns->Look().journal_turns > before.journal_turns ? behind : ahead);
    }
  };
  std::thread one(write, "user:mallory");
  std::thread two(write, "user:trudy");
  absl::Status durable;
  for (uint64_t turn = 1; turn <= 5'000 && behind < 3 && durable.ok(); ++turn) {
    opened.journal->Append(RecordOf(turn, {ReasonEvent(turn, 1, "x")}));
    durable = opened.WaitFor(turn);
  }
  is_over = true;
  one.join();
  two.join();
  EXPECT_TRUE(durable.ok()) << durable;
  EXPECT_GE(behind, 3);
  EXPECT_LE(ahead * WriteTurns::kJournalInARow, turns->Look().journal_turns);
  EXPECT_TRUE(opened.journal->Stop().ok());
}

TEST(WriteTurnsTest, ADatabaseThatAnotherProcessLocksIsWaitedForAndThatIsTold) {
  TempDir dir;
  const Paths paths(dir.path());
  const auto turns = std::make_shared<WriteTurns>(kShort);
  OpenedJournal opened(*OpenSqliteJournal(paths, nullptr, turns));
  opened.Start();
  const auto identities = *SqliteIdentityStore::Open(paths, turns);
  const auto foreign = *Database::Open(paths.Database(), Database::Mode::kReadWrite);
  ASSERT_TRUE(foreign->Execute("BEGIN IMMEDIATE").ok());
  opened.journal->Append(RecordOf(1, {ReasonEvent(1, 1, "x")}));
  const absl::Status why = opened.WaitForStuck();
  EXPECT_EQ(common::CodeOf(why), "JC1613") << why;
  EXPECT_NE(why.message().find(paths.Database()), std::string::npos) << why;
  const absl::Status refused = identities->PutUser(v1::User());
  EXPECT_EQ(common::CodeOf(refused), "JC1613") << "others learn it and may try again: " << refused;
  ASSERT_TRUE(foreign->Execute("COMMIT").ok());
  EXPECT_TRUE(opened.WaitFor(1).ok());
  EXPECT_EQ(opened.TimesUnstuck(), 1);
  EXPECT_TRUE(identities->PutUser(v1::User()).ok());
  EXPECT_TRUE(opened.journal->Stop().ok());
}

// As when the disk does not finish a write of the identity store.
TEST(WriteTurnsTest, AWriteThatHangsHoldsUpTheJournalAndDoesNotEndIt) {
  TempDir dir;
  const Paths paths(dir.path());
  const auto turns = std::make_shared<WriteTurns>(kShort);
  OpenedJournal opened(*OpenSqliteJournal(paths, nullptr, turns));
  opened.Start();
  {
    const auto hanging = turns->Take();
    opened.journal->Append(RecordOf(1, {ReasonEvent(1, 1, "x")}));
    EXPECT_EQ(common::CodeOf(opened.WaitForStuck()), "JC1613");
  }
  EXPECT_TRUE(opened.WaitFor(1).ok());
  EXPECT_EQ(opened.TimesUnstuck(), 1);
  EXPECT_TRUE(opened.journal->Stop().ok());
}

TEST(WriteTurnsTest, AStartOverALockedDatabaseNamesTheLock) {
  TempDir dir;
  const Paths paths(dir.path());
  ASSERT_TRUE(OpenSqliteJournal(paths).ok());
  const auto foreign = *Database::Open(paths.Database(), Database::Mode::kReadWrite);
  ASSERT_TRUE(foreign->Execute("BEGIN IMMEDIATE").ok());
  const auto refused =
      OpenSqliteJournal(paths, nullptr, std::make_shared<WriteTurns>(std::chrono::milliseconds(1)));
  EXPECT_EQ(common::CodeOf(refused.status()), "JC1613") << refused.status();
}

}  // namespace
}  // namespace muster::coordinator
