// What leaves a database for the archive is answered as before, here and on a coordinator that follows.
#include "coordinator/sqlite/archive/archive.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/problem.h"
#include "common/text/strings.h"
#include "coordinator/care/kept_apart.h"
#include "coordinator/local/audit_store.h"
#include "coordinator/local/blob_store.h"
#include "coordinator/sqlite/audit_store.h"
#include "coordinator/sqlite/database/changes.h"
#include "coordinator/sqlite/job_index.h"
#include "coordinator/sqlite/journal.h"
#include "coordinator/sqlite/offline.h"
#include "coordinator/sqlite/replica.h"
#include "coordinator/sqlite/schema.h"
#include "coordinator/store_parts/put_bytes.h"
#include "tests/coordinator/temp_dir.h"
#include "tests/stores/opened_journal.h"

namespace muster::coordinator {
namespace {

using common::StrCat;

constexpr size_t kRecordBytes = 20'000;

struct Machine {
  TempDir dir;
  Paths paths{dir.path()};
  std::shared_ptr<BlobStore> blobs = LocalBlobStore::At(paths);
  size_t CountBlobs() const {
    size_t files = 0;
    if (!std::filesystem::exists(paths.BlobRoot())) return 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(paths.BlobRoot()))
      files += entry.is_regular_file() ? 1 : 0;
    return files;
  }
};

// Applies each entry to the follower's copy.
class Copying final : public CommitLog {
 public:
  explicit Copying(const Machine& other)
      : replica_(*SqliteReplica::Open(other.paths, other.blobs)) {
    EXPECT_TRUE(replica_->Follow("log").ok());
  }
  absl::StatusOr<uint64_t> Append(std::string_view changes) override {
    const absl::Status applied = replica_->Apply(++position_, changes);
    EXPECT_TRUE(applied.ok()) << applied;
    return position_;
  }
  void FailedHere(const absl::Status&) override {}

 private:
  uint64_t position_ = 0;
  std::unique_ptr<Replica> replica_;
};

class ArchiveTest : public ::testing::Test {
 protected:
  ArchiveTest() {
    EXPECT_TRUE((*SqliteReplica::Open(here_.paths, here_.blobs))->Follow("log").ok());
    turns_ = std::make_shared<WriteTurns>(WriteTurns::kTimeout, &log_);
    opened_ = std::make_unique<OpenedJournal>(*OpenSqliteJournal(here_.paths, nullptr, turns_));
    opened_->Start();
    archive_ = *SqliteArchive::Open(
        {.paths = here_.paths,
         .head = "a",
         .blobs = here_.blobs,
         .put =
             [this](std::string_view bytes) { return PutBytes(*here_.blobs, here_.paths, bytes); },
         .turns = turns_});
  }

  std::unique_ptr<JobIndex> IndexOf(const Machine& machine) {
    return *SqliteJobIndex::Open(machine.paths.Database(), machine.blobs);
  }
  void Append(JournalRecord record) {
    record.turn = ++turn_;
    opened_->journal->Append(std::move(record));
    ASSERT_TRUE(opened_->WaitFor(turn_).ok());
  }
  // Two events of each job, and a large record.
  void Finish(uint64_t job, const std::string& file = "") {
    FinishedJob finished = Finished(job, StrCat("train-", job), StrCat("key-", job));
    v1::JobRecord record = *finished.record;
    record.mutable_spec()->add_command(std::string(kRecordBytes, static_cast<char>('a' + job)));
    if (!file.empty()) record.add_checkpoints()->add_files()->set_sha256(file);
    finished.record = std::make_shared<const v1::JobRecord>(record);
    v1::Event first = ReasonEvent(++seq_, job, "begins"), second = ReasonEvent(++seq_, job, "ends");
    second.set_node("n1");
    JournalRecord turn = RecordOf(0, {first, second});
    turn.facts = FactsOf({finished}, static_cast<int64_t>(job));
    Append(std::move(turn));
  }
  void TakeSnapshot() {
    JournalRecord turn = RecordOf(0, {});
    v1::Snapshot snapshot;
    snapshot.set_format(1);
    snapshot.set_seq(seq_);
    turn.snapshot = std::make_shared<const v1::Snapshot>(snapshot);
    Append(std::move(turn));
  }
  // Entries 1 to `count`, but for one of them.
  void AppendAudit(uint64_t count, uint64_t without = 0) {
    std::vector<v1::AuditEntry> entries(count);
    std::vector<const v1::AuditEntry*> added;
    for (uint64_t number = 1; number <= count; ++number) {
      v1::AuditEntry& entry = entries[number - 1];
      entry.set_number(number);
      entry.set_hash(StrCat("hash ", number));
      if (number != without) added.push_back(&entry);
    }
    const auto audit = *SqliteAuditStore::Open(here_.paths, turns_, here_.blobs);
    ASSERT_TRUE(audit->Append(added).ok());
  }
  uint64_t MoveAll() {
    uint64_t all = 0;
    while (true) {
      const absl::StatusOr<uint64_t> moved = archive_->MoveOldest(UINT64_MAX);
      EXPECT_TRUE(moved.ok()) << moved.status();
      if (*moved == 0) return all;
      all += *moved;
    }
  }
  static std::vector<uint64_t> SeqsOf(const absl::StatusOr<std::vector<v1::Event>>& events) {
    EXPECT_TRUE(events.ok()) << events.status();
    std::vector<uint64_t> seqs;
    for (const v1::Event& event : *events) seqs.push_back(event.seq());
    return seqs;
  }
  std::string OnlyBlobOf(const Machine& machine, uint64_t job) {
    return machine.paths.BlobFile(IndexOf(machine)->BlobsOf(job)->at(0));
  }

  const Machine here_, there_;
  Copying log_{there_};
  std::shared_ptr<WriteTurns> turns_;
  std::unique_ptr<OpenedJournal> opened_;
  std::unique_ptr<Archive> archive_;
  uint64_t turn_ = 0;
  uint64_t seq_ = 0;
};

TEST_F(ArchiveTest, TheOldestJobsLeaveAndTheStateShrinks) {
  for (uint64_t job = 1; job <= 20; ++job) Finish(job);
  TakeSnapshot();
  const uint64_t before = *archive_->StateBytes();
  EXPECT_GE(*archive_->MoveOldest(3 * kRecordBytes), 3 * kRecordBytes);
  EXPECT_LE(*archive_->StateBytes() + 3 * kRecordBytes, before + 4'096);
  EXPECT_EQ(here_.CountBlobs(), 3u);
  EXPECT_GE(MoveAll(), 17 * kRecordBytes);
  EXPECT_LT(*archive_->StateBytes(), before / 2);
  EXPECT_EQ(there_.CountBlobs(), 20u) << "the follower made the same blobs of its own rows";
}

TEST_F(ArchiveTest, EverythingIsAnsweredAsBeforeHereAndAfterATakeover) {
  Finish(1, "aa");
  Finish(2);
  TakeSnapshot();
  MoveAll();
  for (const Machine* machine : {&here_, &there_}) {
    const auto index = IndexOf(*machine);
    EXPECT_EQ((*index->Find(1))->spec().command(0).size(), kRecordBytes);
    EXPECT_EQ((*index->Find(2))->name(), "train-2");
    EXPECT_FALSE(index->Find(3)->has_value());
    EXPECT_EQ((*index->FindIdentity(1))->idempotency_key(), "key-1");
    EXPECT_EQ(**index->FindNamed("train-1"), 1u);
    EXPECT_EQ(KeysOf(*index), (std::vector<std::string>{"uid:1/key-1", "uid:1/key-2"}));
    EXPECT_EQ(index->List({.limit = 9})->size(), 2u);
    EXPECT_EQ(SeqsOf(index->Events({.job = 1, .until = 9, .newest = 9})),
              (std::vector<uint64_t>{1, 2}));
    EXPECT_EQ(SeqsOf(index->Events({.job = 2, .node = "n1", .until = 9, .newest = 9})),
              (std::vector<uint64_t>{4}));
    EXPECT_EQ(index->Referenced({"aa"})->size(), 1u) << "of a checkpoint of an archived job";
    EXPECT_EQ(index->BlobsOf(1)->size(), 2u) << "its checkpoint and its record";
    EXPECT_EQ(index->Referenced(*index->BlobsOf(2))->size(), 1u);
  }
  EXPECT_TRUE(archive_->CheckAllHere().ok());
}

TEST_F(ArchiveTest, AJobWhoseEventsAReplayNeedsStays) {
  Finish(1);
  TakeSnapshot();
  Finish(2);
  MoveAll();
  EXPECT_EQ(here_.CountBlobs(), 1u);
  const auto replayed = Replay(*opened_->journal);
  ASSERT_TRUE(replayed.ok()) << replayed.status();
  EXPECT_EQ(replayed->events, (std::vector<uint64_t>{3, 4}));
  TakeSnapshot();
  MoveAll();
  EXPECT_EQ(here_.CountBlobs(), 2u);
  EXPECT_TRUE(Replay(*opened_->journal).ok());
}

// As when a checkpoint of a finished job is removed.
TEST_F(ArchiveTest, ARecordThatIsWrittenAgainIsTheNewestAndKeepsItsEvents) {
  Finish(1, "aa");
  TakeSnapshot();
  MoveAll();
  JournalRecord rewritten = RecordOf(0, {ReasonEvent(++seq_, 1, "changed")});
  rewritten.facts = FactsOf({Finished(1, "train-1", "key-1")});
  Append(std::move(rewritten));
  TakeSnapshot();
  EXPECT_EQ(MoveAll(), 0u);
  const auto index = IndexOf(here_);
  EXPECT_EQ((*index->Find(1))->spec().command_size(), 0);
  JobIndex::EventRange range{.job = 1, .until = 9, .newest = 9};
  EXPECT_EQ(SeqsOf(index->Events(range)), (std::vector<uint64_t>{1, 2, 3}));
  range.newest = 2;
  EXPECT_EQ(SeqsOf(index->Events(range)), (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(*index->BeforeNewest(range), 1u);
  range = {.job = 1, .until = 9, .newest = 9, .bytes = 1};
  EXPECT_EQ(SeqsOf(index->Events(range)), (std::vector<uint64_t>{1})) << "piece by piece";
  range.after = 2;
  EXPECT_EQ(SeqsOf(index->Events(range)), (std::vector<uint64_t>{3}));
}

TEST_F(ArchiveTest, ARemovedJobLeavesNothing) {
  Finish(1);
  TakeSnapshot();
  MoveAll();
  const std::string blob = OnlyBlobOf(here_, 1);
  JournalRecord removal = RecordOf(0, {RemovedEvent(++seq_, 1)});
  removal.facts = FactsOfRemoved({1});
  Append(std::move(removal));
  const auto index = IndexOf(here_);
  EXPECT_FALSE(index->Find(1)->has_value());
  EXPECT_TRUE(index->Referenced({std::filesystem::path(blob).filename()})->empty())
      << "so that the leader's collection takes it";
  EXPECT_EQ(there_.CountBlobs(), 0u) << "a follower collects nothing, so it goes with the row";
}

TEST_F(ArchiveTest, WhatIsNotHereIsAtTheCoordinatorThatIsNamed) {
  Finish(1);
  TakeSnapshot();
  MoveAll();
  std::filesystem::remove(OnlyBlobOf(here_, 1));
  const absl::Status missing = IndexOf(here_)->Find(1).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(missing)) << "to ask again does not help: " << missing;
  EXPECT_EQ(common::CodeOf(missing), "JC1632");
  EXPECT_NE(missing.message().find("the coordinator a moved the record of job 1"),
            std::string::npos)
      << missing;
  EXPECT_EQ(common::CodeOf(archive_->CheckAllHere()), "JC1632");
  EXPECT_EQ(IndexOf(here_)->List({.limit = 9})->size(), 1u) << "lists need no record";
  EXPECT_EQ((*IndexOf(here_)->FindIdentity(1))->name(), "train-1") << "nor does its removal";
}

TEST_F(ArchiveTest, ADamagedBlobIsNeverTakenForTheRecord) {
  Finish(1);
  TakeSnapshot();
  MoveAll();
  const std::string file = OnlyBlobOf(here_, 1);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  EXPECT_TRUE(absl::IsDataLoss(IndexOf(here_)->Find(1).status()));
  EXPECT_TRUE(
      absl::IsDataLoss(IndexOf(here_)->Events({.job = 1, .until = 9, .newest = 9}).status()));
}

TEST_F(ArchiveTest, OldEntriesOfTheAuditLeaveInWholeParts) {
  constexpr uint64_t kEntries = 2 * kAuditPartEntries + 500;
  AppendAudit(kEntries);
  const auto audit = *SqliteAuditStore::Open(here_.paths, turns_, here_.blobs);
  const std::vector<uint64_t> parts = *audit->Parts();
  MoveAll();
  EXPECT_EQ(here_.CountBlobs(), 2u) << "the newest part stays";
  for (const Machine* machine : {&here_, &there_}) {
    const auto store =
        *SqliteAuditStore::Open(machine->paths, std::make_shared<WriteTurns>(), machine->blobs);
    EXPECT_EQ(*store->Parts(), parts);
    uint64_t number = 0;
    for (const uint64_t part : parts) {
      const AuditPart read = *store->Read(part);
      for (const v1::AuditEntry& entry : read.entries) EXPECT_EQ(entry.number(), ++number);
    }
    EXPECT_EQ(number, kEntries);
    EXPECT_EQ(store->Recover()->head.number(), kEntries);
  }
}

// One that was away when they left has their rows still, and loads a snapshot in which they are gone.
TEST_F(ArchiveTest, ASnapshotThatReplacesTheRowsLeavesTheirBlobs) {
  Finish(1);
  TakeSnapshot();
  const Machine away;
  ASSERT_TRUE(CopyDatabase(here_.paths.Database(), away.paths.Database()).ok());
  MoveAll();
  SqliteReplicaHome home(away.paths, away.blobs);
  const std::string stage = *home.Stage();
  const absl::StatusOr<uint64_t> position = SqliteReplicaHome(here_.paths, here_.blobs).Save(stage);
  ASSERT_TRUE(position.ok()) << position.status();
  ASSERT_TRUE(home.Replace(stage, "log", *position).ok());
  EXPECT_EQ((*IndexOf(away)->Find(1))->name(), "train-1");
  EXPECT_EQ(away.CountBlobs(), 1u);
}

// `migrate` and `restore` put the audit into files, and a later `migrate` into a database again, from its beginning.
TEST_F(ArchiveTest, OneThatLeavesTheOthersHasItsJobsAndNoAuditHere) {
  AppendAudit(2 * kAuditPartEntries);
  Finish(1);
  TakeSnapshot();
  MoveAll();
  ASSERT_TRUE((*SqliteReplica::Open(there_.paths, there_.blobs))->Leave().ok());
  const auto left = *Database::Open(there_.paths.Database(), Database::Mode::kReadWrite);
  EXPECT_EQ(*left->Scalar("SELECT count(*) FROM archive WHERE kind = 1"), 1);
  EXPECT_EQ(*left->Scalar("SELECT count(*) FROM archive WHERE kind = 2"), 0);
  EXPECT_EQ(*left->Scalar("PRAGMA user_version"), kSchemaVersion)
      << "an older coordinator would take the archive's blobs for garbage";
}

// As of a backup of a coordinator that came late: its jobs are worth more than a part of the audit.
TEST_F(ArchiveTest, ARestoreReportsWhatOfTheAuditItLacksAndTakesTheRest) {
  AppendAudit(3 * kAuditPartEntries);
  MoveAll();
  const TempDir restored;  // without the archive's blobs
  std::vector<std::string> found;
  const absl::Status left = LeaveTheOthers(
      there_.dir.path(), restored.path(),
      [&](const Damage& damage) { found.push_back(StrCat(damage.path, ": ", damage.what)); });
  ASSERT_TRUE(left.ok()) << left;
  ASSERT_EQ(found.size(), 3u);
  EXPECT_NE(found[0].find("audit: the coordinator a moved the entries 1 to 999"), std::string::npos)
      << found[0];
  const LocalAuditStore audit(Paths(restored.path()).AuditRoot());
  EXPECT_EQ(audit.Read(audit.Parts()->at(0))->entries.front().number(), 3 * kAuditPartEntries);
}

TEST_F(ArchiveTest, AnAuditThatLacksAnEntryKeepsNothingElseBack) {
  AppendAudit(3 * kAuditPartEntries, /*without=*/501);
  Finish(1);
  TakeSnapshot();
  MoveAll();
  EXPECT_EQ(here_.CountBlobs(), 3u) << "the job, and the two whole parts after it";
  const auto audit = *SqliteAuditStore::Open(here_.paths, turns_, here_.blobs);
  EXPECT_EQ(*audit->Parts(), (std::vector<uint64_t>{1, 1'000, 2'000, 3'000}));
}

TEST_F(ArchiveTest, CheckAndBackupKnowWhatItRefersTo) {
  Finish(1, std::string(64, 'a'));
  TakeSnapshot();
  MoveAll();
  const absl::StatusOr<StateContents> contents = ReadContents(here_.paths.Database());
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->finished_jobs, 1u);
  ASSERT_EQ(contents->blobs.size(), 2u);
  EXPECT_EQ(contents->blobs.at(std::string(64, 'a')).size, BlobUse::kUnknownSize);
}

TEST_F(ArchiveTest, AFollowerWhoseRowsDifferStopsInsteadOfLosingThem) {
  Finish(1);
  TakeSnapshot();
  // As after damage.
  const auto other = *Database::Open(there_.paths.Database(), Database::Mode::kReadWrite);
  ASSERT_TRUE(other->Execute("UPDATE job_records SET record = x'00'").ok());
  const auto replica = *SqliteReplica::Open(there_.paths, there_.blobs);
  const auto leader = *Database::Open(here_.paths.Database(), Database::Mode::kReadWrite);
  ASSERT_TRUE(leader->Execute("BEGIN").ok());
  const auto recorder = *ChangeRecorder::Begin(*leader);
  ASSERT_TRUE(leader
                  ->Execute("DELETE FROM job_records WHERE id = 1; INSERT INTO archive VALUES(1, "
                            "1, 2, 'the hash of other bytes', 9, 'a')")
                  .ok());
  EXPECT_TRUE(absl::IsDataLoss(replica->Apply(99, *recorder->Take())));
  EXPECT_EQ(*other->Scalar("SELECT count(*) FROM job_records"), 1);
}

}  // namespace
}  // namespace muster::coordinator
