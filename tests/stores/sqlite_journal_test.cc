// The SQLite journal on real files: what was committed comes back, what is damaged is refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include "coordinator/base/number_file.h"
#include "coordinator/local/note_store.h"
#include "coordinator/sqlite/database/database.h"
#include "coordinator/sqlite/database/write_turns.h"
#include "coordinator/sqlite/identity_store.h"
#include "coordinator/sqlite/job_index.h"
#include "coordinator/sqlite/journal.h"
#include "coordinator/sqlite/note_store.h"
#include "coordinator/store_parts/lived_clock.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/stores/opened_journal.h"

namespace muster::coordinator {
namespace {

void WriteThreeEvents(const Paths& paths) {
  OpenedJournal opened(*OpenSqliteJournal(paths));
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

TEST(SqliteNoteStoreTest, ANoteIsReadBesideTheOneThatWritesIt) {
  TempDir dir;
  const Paths paths(dir.path());
  ASSERT_FALSE(SqliteNoteStore::ReadOnce(paths, Note::kMetricsSecret).ok());
  const auto journal = OpenSqliteJournal(paths);
  ASSERT_TRUE(journal.ok()) << journal.status();
  const auto notes = SqliteNoteStore::Open(paths, std::make_shared<WriteTurns>());
  ASSERT_TRUE(notes.ok()) << notes.status();
  EXPECT_TRUE(absl::IsNotFound(SqliteNoteStore::ReadOnce(paths, Note::kMetricsSecret).status()));
  ASSERT_TRUE((*notes)->Write(Note::kMetricsSecret, "first").ok());
  EXPECT_EQ(*SqliteNoteStore::ReadOnce(paths, Note::kMetricsSecret), "first");
  ASSERT_TRUE((*notes)->Write(Note::kMetricsSecret, "second").ok());
  EXPECT_EQ(*SqliteNoteStore::ReadOnce(paths, Note::kMetricsSecret), "second");
  EXPECT_EQ(*(*notes)->Read(Note::kMetricsSecret), "second");
  EXPECT_TRUE(absl::IsNotFound(SqliteNoteStore::ReadOnce(paths, Note::kHttpSecret).status()));
}

TEST(SqliteJournalTest, RowsOfACoordinatorThatDidNotCountGrowOldFromNowOn) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    OpenedJournal opened(*OpenSqliteJournal(paths));
    opened.Start();
    JournalRecord record = RecordOf(1, {ReasonEvent(1, 1, "a")});
    record.facts = FactsOf({Finished(1, "red-fox-1", "")});
    opened.journal->Append(std::move(record));
    ASSERT_TRUE(opened.WaitFor(1).ok());
  }
  ASSERT_TRUE((*Database::Open(paths.Database(), Database::Mode::kReadWrite))
                  ->Execute("DROP TABLE job_lives")
                  .ok());
  ASSERT_TRUE(WriteNumbers(paths.Lived(), {77'000}).ok());
  LocalNoteStore notes(paths);
  LivedClock clock(notes);
  ASSERT_TRUE(OpenSqliteJournal(paths, &clock).ok());
  auto index = *SqliteJobIndex::Open(paths.Database(), nullptr);
  EXPECT_EQ(index->CountFinished(77'000, 0)->aged, 0);
  EXPECT_EQ(index->CountFinished(INT64_MAX, 0)->aged, 1);
}

TEST(SqliteJournalTest, LivedTimeIsNeverBehindTheLastEvent) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    OpenedJournal opened(*OpenSqliteJournal(paths));
    opened.Start();
    v1::Event event = ReasonEvent(1, 1, "a");
    event.set_lived_ms(99'000);
    opened.journal->Append(RecordOf(1, {event}));
    ASSERT_TRUE(opened.WaitFor(1).ok());
  }
  LocalNoteStore notes(paths);
  LivedClock clock(notes);
  ASSERT_TRUE(OpenSqliteJournal(paths, &clock).ok());
  EXPECT_GE(clock.Read().lived_ms, 99'000);
}

TEST(SqliteJournalTest, ATruncatedDatabaseIsRefused) {
  TempDir dir;
  const Paths paths(dir.path());
  WriteThreeEvents(paths);
  ASSERT_EQ(truncate(paths.Database().c_str(), 6'000), 0);
  ExpectRefused(paths, "is damaged");
}

TEST(SqliteJournalTest, ADatabaseOfGarbageIsRefused) {
  TempDir dir;
  const Paths paths(dir.path());
  ASSERT_TRUE(common::WriteFileDurably(paths.Database(), std::string(8'192, 'x')).ok());
  ExpectRefused(paths, "is damaged");
}

TEST(SqliteJournalTest, AnOlderCopyOfTheDatabaseIsNoticed) {
  TempDir dir;
  const Paths paths(dir.path());
  WriteThreeEvents(paths);
  ASSERT_TRUE(common::WriteFileDurably(paths.HighWater(), "00000000000000000009\n").ok());
  ExpectRefused(paths, "event 9");
}

TEST(SqliteJournalTest, ANewerSchemaIsRefused) {
  TempDir dir;
  const Paths paths(dir.path());
  WriteThreeEvents(paths);
  ASSERT_TRUE((*Database::Open(paths.Database(), Database::Mode::kReadWrite))
                  ->Execute("PRAGMA user_version=99")
                  .ok());
  ExpectRefused(paths, "schema 99");
}

// They would give a removed person's jobs to the next user of the name, and open projects without members.
TEST(SqliteJournalTest, OlderReleasesRefuseADatabaseFromTheFirstPersonWithAnIdOn) {
  TempDir dir;
  const Paths paths(dir.path());
  WriteThreeEvents(paths);
  const auto schema = [&] {
    return *(*Database::Open(paths.Database(), Database::Mode::kReadOnly))
                ->Scalar("PRAGMA user_version");
  };
  v1::User alice;
  alice.set_name("alice");
  v1::Project open;
  open.set_name("vision");
  {
    const auto store = *SqliteIdentityStore::Open(paths, std::make_shared<WriteTurns>());
    ASSERT_TRUE(store->PutUser(alice).ok());
    ASSERT_TRUE(store->PutProject(open).ok());
    EXPECT_EQ(schema(), 2) << "as 0.2.0 has them";
    alice.set_id("5f0c");
    ASSERT_TRUE(store->PutUser(alice).ok());
    EXPECT_EQ(schema(), 3);
  }
  // It stays so, and is opened by this release.
  ASSERT_TRUE((*OpenSqliteJournal(paths))->Stop().ok());
  EXPECT_EQ(schema(), 3);
  ASSERT_TRUE((*Database::Open(paths.Database(), Database::Mode::kReadWrite))
                  ->Execute("PRAGMA user_version=2")
                  .ok());
  const auto store = *SqliteIdentityStore::Open(paths, std::make_shared<WriteTurns>());
  open.set_closed(true);
  ASSERT_TRUE(store->PutProject(open).ok());
  EXPECT_EQ(schema(), 3);
}

TEST(SqliteJournalTest, ASnapshotOfANewerFormatIsRefused) {
  TempDir dir;
  const Paths paths(dir.path());
  {
    OpenedJournal opened(*OpenSqliteJournal(paths));
    opened.Start();
    JournalRecord record = RecordOf(1, {ReasonEvent(1, 7, "a")});
    v1::Snapshot snapshot;
    snapshot.set_format(3);
    snapshot.set_seq(1);
    record.snapshot = std::make_shared<const v1::Snapshot>(snapshot);
    opened.journal->Append(std::move(record));
    ASSERT_TRUE(opened.WaitFor(1).ok());
  }
  ExpectRefused(paths, "snapshot format 3");
}

// Sets every field of the snapshot itself, so that one that is added later is not forgotten.
v1::Snapshot SnapshotOfJobs(int count, size_t bytes) {
  v1::Snapshot snapshot;
  const auto& fields = *snapshot.GetDescriptor();
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto& field = *fields.field(i);
    const auto& reflection = *snapshot.GetReflection();
    if (field.is_repeated()) {
      reflection.AddMessage(&snapshot, &field);
    } else if (field.cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      reflection.MutableMessage(&snapshot, &field);  // empty, but there
    } else if (field.cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_UINT64) {
      reflection.SetUInt64(&snapshot, &field, 1);
    } else {
      reflection.SetUInt32(&snapshot, &field, 1);
    }
  }
  snapshot.clear_jobs();
  for (int i = 1; i <= count; ++i) {
    v1::JobRecord& job = *snapshot.add_jobs();
    job.set_id(i);
    (*job.mutable_spec()->mutable_env())["LARGE"] = std::string(bytes, 'x');
  }
  return snapshot;
}

void WriteSnapshot(const Paths& paths, const v1::Snapshot& snapshot) {
  OpenedJournal opened(*OpenSqliteJournal(paths));
  opened.Start();
  JournalRecord record = RecordOf(1, {});
  record.snapshot = std::make_shared<const v1::Snapshot>(snapshot);
  opened.journal->Append(std::move(record));
  ASSERT_TRUE(opened.WaitFor(1).ok());
}

v1::Snapshot ReadSnapshot(const Paths& paths) {
  auto journal = *OpenSqliteJournal(paths);
  v1::Snapshot read;
  ReplayCallbacks sink{.snapshot =
                           [&](const v1::Snapshot& snapshot) {
                             read = snapshot;
                             return absl::OkStatus();
                           },
                       .event = [](const v1::Event&) { return absl::OkStatus(); }};
  EXPECT_TRUE(journal->Replay(sink).ok());
  return read;
}

int64_t RowsOfJobs(const Paths& paths) {
  return *(*Database::Open(paths.Database(), Database::Mode::kReadOnly))
              ->Scalar("SELECT count(*) FROM snapshot_jobs");
}

TEST(SqliteJournalTest, ALargeSnapshotHasARowForEachJobAndOlderCoordinatorsRefuseIt) {
  TempDir dir;
  const Paths paths(dir.path());
  v1::Snapshot large = SnapshotOfJobs(40, 1 << 20);
  WriteSnapshot(paths, large);
  EXPECT_EQ(RowsOfJobs(paths), 40);
  large.set_format(2);
  EXPECT_EQ(ReadSnapshot(paths).SerializeAsString(), large.SerializeAsString());
  const v1::Snapshot small = SnapshotOfJobs(3, 10);
  WriteSnapshot(paths, small);
  EXPECT_EQ(RowsOfJobs(paths), 0) << "nothing is left of the larger one";
  EXPECT_EQ(ReadSnapshot(paths).SerializeAsString(), small.SerializeAsString());
}

TEST(SqliteJournalTest, ASnapshotThatLostAJobIsRefused) {
  TempDir dir;
  const Paths paths(dir.path());
  WriteSnapshot(paths, SnapshotOfJobs(40, 1 << 20));
  ASSERT_TRUE((*Database::Open(paths.Database(), Database::Mode::kReadWrite))
                  ->Execute("DELETE FROM snapshot_jobs WHERE id = 7")
                  .ok());
  ExpectRefused(paths, "has 39 jobs, and should have 40");
}

TEST(SqliteJournalTest, AnEventOfAnUnknownKindIsRefusedUnlessItMayBeSkipped) {
  TempDir dir;
  const Paths paths(dir.path());
  WriteThreeEvents(paths);
  v1::Event unknown;
  unknown.set_seq(4);
  {
    OpenedJournal opened(*OpenSqliteJournal(paths));
    opened.Start();
    unknown.set_skippable(true);
    opened.journal->Append(RecordOf(1, {unknown}));
    ASSERT_TRUE(opened.WaitFor(1).ok());
  }
  EXPECT_TRUE(Replay(**OpenSqliteJournal(paths)).ok());
  {
    OpenedJournal opened(*OpenSqliteJournal(paths));
    opened.Start();
    unknown.set_seq(5);
    unknown.set_skippable(false);
    opened.journal->Append(RecordOf(1, {unknown}));
    ASSERT_TRUE(opened.WaitFor(1).ok());
  }
  ExpectRefused(paths, "event 5 of a kind");
}

TEST(SqliteJournalTest, AMissingEventIsRefused) {
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
