// The SQLite journal on real files: what was committed comes back, what is damaged is refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>

#include "coordinator/lived_clock.h"
#include "coordinator/number_file.h"
#include "coordinator/sqlite/database.h"
#include "coordinator/sqlite/job_index.h"
#include "coordinator/sqlite/journal.h"
#include "tests/coordinator/temp_dir.h"

namespace muster::coordinator {
namespace {

v1::Event ReasonEvent(uint64_t seq, uint64_t job, const std::string& reason) {
  v1::Event event;
  event.set_seq(seq);
  event.set_job(job);
  event.mutable_reason_changed()->set_reason(reason);
  return event;
}

JournalRecord RecordOf(uint64_t turn, std::vector<v1::Event> events) {
  JournalRecord record;
  record.turn = turn;
  record.events = std::make_shared<const std::vector<v1::Event>>(std::move(events));
  return record;
}

FinishedJob Finished(uint64_t id, const std::string& name, const std::string& key) {
  auto record = std::make_shared<v1::JobRecord>();
  record->set_id(id);
  record->set_name(name);
  record->set_owner("uid:1");
  record->set_idempotency_key(key);
  record->set_spec_hash(77);
  record->set_state(v1::JOB_STATE_SUCCEEDED);
  record->set_finished_ms(static_cast<int64_t>(1'000 + id));
  v1::JobSummary summary;
  summary.set_id(id);
  summary.set_name(name);
  return {record, summary};
}

// A started journal whose durable turn can be waited for.
class OpenedJournal {
 public:
  explicit OpenedJournal(const Paths& paths) {
    auto opened = OpenSqliteJournal(paths);
    EXPECT_TRUE(opened.ok()) << opened.status();
    journal = *std::move(opened);
  }
  void Start() {
    journal->Start({.durable =
                        [this](uint64_t turn) {
                          std::lock_guard lock(mutex_);
                          durable_ = turn;
                          changed_.notify_all();
                        },
                    .disk_full = [](bool) {},
                    .stuck = [](const absl::Status&) {},
                    .failed =
                        [this](const absl::Status& status) {
                          std::lock_guard lock(mutex_);
                          failure_ = status;
                          changed_.notify_all();
                        }});
  }
  absl::Status WaitFor(uint64_t turn) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20),
                      [&] { return durable_ >= turn || !failure_.ok(); });
    if (!failure_.ok()) return failure_;
    return durable_ >= turn ? absl::OkStatus() : absl::DeadlineExceededError("not durable");
  }
  std::unique_ptr<Journal> journal;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t durable_ = 0;
  absl::Status failure_;
};

struct Replayed {
  std::vector<uint64_t> events;
  std::vector<std::string> keys;
  uint64_t snapshot = 0;
};

absl::StatusOr<Replayed> Replay(Journal& journal) {
  Replayed replayed;
  const absl::Status status = journal.Replay(
      {.snapshot = [&](const v1::Snapshot& snapshot) { replayed.snapshot = snapshot.seq(); },
       .key = [&](const std::string& owner, const std::string& key, uint64_t job,
                  uint64_t hash) { replayed.keys.push_back(owner + "/" + key); },
       .event = [&](const v1::Event& event) { replayed.events.push_back(event.seq()); }});
  if (!status.ok()) return status;
  return replayed;
}

void WriteThreeEvents(const Paths& paths) {
  OpenedJournal opened(paths);
  opened.Start();
  opened.journal->Append(RecordOf(1, {ReasonEvent(1, 7, "a"), ReasonEvent(2, 7, "b")}));
  opened.journal->Append(RecordOf(2, {ReasonEvent(3, 8, "c")}));
  ASSERT_TRUE(opened.WaitFor(2).ok());
  ASSERT_TRUE(opened.journal->Stop().ok());
}

void ExpectRefused(const Paths& paths, const std::string& what) {
  auto opened = OpenSqliteJournal(paths);
  absl::Status status = opened.status();
  if (opened.ok()) status = Replay(**opened).status();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(std::string(status.message()).find(what), std::string::npos) << status;
  EXPECT_NE(std::string(status.message()).find(paths.Database()), std::string::npos) << status;
  EXPECT_NE(std::string(status.message()).find("fix:"), std::string::npos) << status;
}

TEST(JournalTest, WhatWasCommittedIsReplayedInOrder) {
  TempDir dir;
  const Paths paths(dir.path());
  WriteThreeEvents(paths);
  OpenedJournal again(paths);
  const auto replayed = Replay(*again.journal);
  ASSERT_TRUE(replayed.ok()) << replayed.status();
  EXPECT_EQ(replayed->events, (std::vector<uint64_t>{1, 2, 3}));
}

TEST(JournalTest, TheEpochGrowsAtEveryStart) {
  TempDir dir;
  const Paths paths(dir.path());
  const uint64_t first = OpenedJournal(paths).journal->Epoch();
  EXPECT_GT(OpenedJournal(paths).journal->Epoch(), first);
}

TEST(JournalTest, TheClusterKeepsItsIdOverEveryStart) {
  TempDir dir, other;
  const std::string first = OpenedJournal(Paths(dir.path())).journal->ClusterId();
  EXPECT_EQ(first.size(), 16u);
  EXPECT_EQ(OpenedJournal(Paths(dir.path())).journal->ClusterId(), first);
  EXPECT_NE(OpenedJournal(Paths(other.path())).journal->ClusterId(), first);
}

TEST(JournalTest, AnOlderEpochCommitsNothingMore) {
  TempDir dir;
  const Paths paths(dir.path());
  OpenedJournal old(paths);
  old.Start();
  OpenedJournal newer(paths);
  old.journal->Append(RecordOf(1, {ReasonEvent(1, 7, "late")}));
  const absl::Status status = old.WaitFor(1);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_TRUE(Replay(*newer.journal)->events.empty());
}

TEST(JournalTest, ASnapshotStandsForTheEventsBeforeIt) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    OpenedJournal opened(paths);
    opened.Start();
    JournalRecord record = RecordOf(1, {ReasonEvent(1, 7, "a"), ReasonEvent(2, 7, "b")});
    v1::Snapshot snapshot;
    snapshot.set_seq(2);
    record.snapshot = std::make_shared<const v1::Snapshot>(snapshot);
    opened.journal->Append(std::move(record));
    opened.journal->Append(RecordOf(2, {ReasonEvent(3, 7, "c")}));
    ASSERT_TRUE(opened.WaitFor(2).ok());
  }
  OpenedJournal again(paths);
  const auto replayed = Replay(*again.journal);
  ASSERT_TRUE(replayed.ok()) << replayed.status();
  EXPECT_EQ(replayed->snapshot, 2u);
  EXPECT_EQ(replayed->events, (std::vector<uint64_t>{3}));
  auto index = SqliteJobIndex::Open(paths);
  EXPECT_EQ((*index)->Events({.job = 7, .until = 9, .newest = 10})->size(), 3u);
}

TEST(JournalTest, FinishedJobsAreListedUntilTheyAreRemoved) {
  TempDir dir;
  const Paths paths(dir.path());
  OpenedJournal opened(paths);
  opened.Start();
  JournalRecord record = RecordOf(1, {ReasonEvent(1, 1, "a"), ReasonEvent(2, 2, "b")});
  record.finished = {Finished(1, "red-fox-1", "key-1"), Finished(2, "red-hen-2", "")};
  opened.journal->Append(std::move(record));
  ASSERT_TRUE(opened.WaitFor(1).ok());
  auto index = *SqliteJobIndex::Open(paths);
  EXPECT_EQ(index->FindPrefix("red-", 9)->size(), 2u);
  EXPECT_EQ(**index->FindNamed("red-fox-1"), 1u);
  EXPECT_EQ((*index->Find(2))->name(), "red-hen-2");
  EXPECT_EQ(*index->Newest("uid:1"), 2u);
  EXPECT_EQ(index->Oldest(1)->front().name, "red-fox-1");
  JournalRecord removal = RecordOf(2, {ReasonEvent(3, 1, "removed")});
  removal.removed_jobs = {1};
  v1::Snapshot snapshot;
  snapshot.set_seq(3);
  removal.snapshot = std::make_shared<const v1::Snapshot>(snapshot);
  opened.journal->Append(std::move(removal));
  ASSERT_TRUE(opened.WaitFor(2).ok());
  EXPECT_FALSE(index->Find(1)->has_value());
  EXPECT_TRUE(index->Events({.job = 1, .until = 9, .newest = 9})->empty());
  EXPECT_EQ(index->List({.limit = 10})->size(), 1u);
}

// A clock that was set 40 days ahead once took 20 of 21 finished jobs.
TEST(JournalTest, OnlyLivedTimeMakesAFinishedJobOld) {
  TempDir dir;
  const Paths paths(dir.path());
  OpenedJournal opened(paths);
  opened.Start();
  JournalRecord record = RecordOf(1, {ReasonEvent(1, 1, "a")});
  record.lived_ms = 5'000;
  record.finished = {Finished(1, "of-1970-by-the-wall", ""), Finished(2, "another", "")};
  opened.journal->Append(std::move(record));
  JournalRecord later = RecordOf(2, {ReasonEvent(2, 2, "b")});
  later.lived_ms = 9'000;
  // The row of job 2 is written again, as when one of its checkpoints goes: its age stays.
  later.finished = {Finished(2, "another", ""), Finished(3, "third", "")};
  opened.journal->Append(std::move(later));
  ASSERT_TRUE(opened.WaitFor(2).ok());
  auto index = *SqliteJobIndex::Open(paths);
  const FinishedCounts counts = *index->CountFinished(9'000, 5'000);
  EXPECT_EQ(counts.all, 3);
  EXPECT_EQ(counts.aged, 2);
  EXPECT_EQ(counts.arrived, 1);
  EXPECT_EQ(index->CountFinished(5'000, 9'000)->aged, 0);
  EXPECT_EQ(index->Oldest(2)->back().id, 2u);
}

TEST(JournalTest, RowsOfACoordinatorThatDidNotCountGrowOldFromNowOn) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    OpenedJournal opened(paths);
    opened.Start();
    JournalRecord record = RecordOf(1, {ReasonEvent(1, 1, "a")});
    record.finished = {Finished(1, "red-fox-1", "")};
    opened.journal->Append(std::move(record));
    ASSERT_TRUE(opened.WaitFor(1).ok());
  }
  ASSERT_TRUE((*Database::Open(paths.Database(), Database::Mode::kReadWrite))
                  ->Execute("DROP TABLE job_lives")
                  .ok());
  ASSERT_TRUE(WriteNumbers(paths.Lived(), {77'000}).ok());
  LivedClock clock(paths.Lived());
  ASSERT_TRUE(OpenSqliteJournal(paths, &clock).ok());
  auto index = *SqliteJobIndex::Open(paths);
  EXPECT_EQ(index->CountFinished(77'000, 0)->aged, 0);
  EXPECT_EQ(index->CountFinished(INT64_MAX, 0)->aged, 1);
}

TEST(JournalTest, KeysOfFinishedJobsAreKnownAgain) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    OpenedJournal opened(paths);
    opened.Start();
    JournalRecord record = RecordOf(1, {ReasonEvent(1, 1, "a")});
    record.finished = {Finished(1, "red-fox-1", "key-1")};
    opened.journal->Append(std::move(record));
    ASSERT_TRUE(opened.WaitFor(1).ok());
  }
  OpenedJournal again(paths);
  EXPECT_EQ(Replay(*again.journal)->keys, (std::vector<std::string>{"uid:1/key-1"}));
}

TEST(JournalTest, ATruncatedDatabaseIsRefused) {
  TempDir dir;
  const Paths paths(dir.path());
  WriteThreeEvents(paths);
  ASSERT_EQ(truncate(paths.Database().c_str(), 6'000), 0);
  ExpectRefused(paths, "is damaged");
}

TEST(JournalTest, ADatabaseOfGarbageIsRefused) {
  TempDir dir;
  const Paths paths(dir.path());
  ASSERT_TRUE(common::WriteFileDurably(paths.Database(), std::string(8'192, 'x')).ok());
  ExpectRefused(paths, "is damaged");
}

TEST(JournalTest, AnOlderCopyOfTheDatabaseIsNoticed) {
  TempDir dir;
  const Paths paths(dir.path());
  WriteThreeEvents(paths);
  ASSERT_TRUE(common::WriteFileDurably(paths.HighWater(), "00000000000000000009\n").ok());
  ExpectRefused(paths, "event 9");
}

TEST(JournalTest, ANewerSchemaIsRefused) {
  TempDir dir;
  const Paths paths(dir.path());
  WriteThreeEvents(paths);
  ASSERT_TRUE((*Database::Open(paths.Database(), Database::Mode::kReadWrite))
                  ->Execute("PRAGMA user_version=99")
                  .ok());
  ExpectRefused(paths, "schema 99");
}

TEST(JournalTest, AnEventOfAnUnknownKindIsRefusedUnlessItMayBeSkipped) {
  TempDir dir;
  const Paths paths(dir.path());
  WriteThreeEvents(paths);
  v1::Event unknown;
  unknown.set_seq(4);
  {
    OpenedJournal opened(paths);
    opened.Start();
    unknown.set_skippable(true);
    opened.journal->Append(RecordOf(1, {unknown}));
    ASSERT_TRUE(opened.WaitFor(1).ok());
  }
  EXPECT_TRUE(Replay(*OpenedJournal(paths).journal).ok());
  {
    OpenedJournal opened(paths);
    opened.Start();
    unknown.set_seq(5);
    unknown.set_skippable(false);
    opened.journal->Append(RecordOf(1, {unknown}));
    ASSERT_TRUE(opened.WaitFor(1).ok());
  }
  ExpectRefused(paths, "event 5 of a kind");
}

TEST(JournalTest, AMissingEventIsRefused) {
  TempDir dir;
  const Paths paths(dir.path());
  WriteThreeEvents(paths);
  ASSERT_TRUE((*Database::Open(paths.Database(), Database::Mode::kReadWrite))
                  ->Execute("DELETE FROM events WHERE seq = 2")
                  .ok());
  ExpectRefused(paths, "event 2 is missing");
}

}  // namespace
}  // namespace muster::coordinator
