// What comes back from a backup, and what a restore refuses.
#include <unistd.h>

#include "coordinator/care/backup_target.h"
#include "coordinator/care/restore.h"
#include "coordinator/sqlite/replay.h"
#include "tests/coordinator/care/small_data.h"

namespace muster::coordinator {
namespace {

class RestoreTest : public SmallData {
 protected:
  void SetUp() override {
    SmallData::SetUp();
    ASSERT_TRUE(Backup().ok());
    ASSERT_EQ(Told(), "");
  }
  absl::StatusOr<RestoreTotals> Restore(int64_t wall_ms = kNowMs) {
    return RestoreBackup({backups, restored.Root(), wall_ms}, SqliteStateCare(restored), Collect(),
                         [](uint64_t) {});
  }
  std::string InBackup(const std::string& path) {
    const Manifest manifest = *ReadManifest(backups);
    for (const SavedFile& file : manifest.files) {
      if (file.path == path) return backups + "/" + file.stored;
    }
    return "";
  }
  // As a coordinator would start on it.
  v1::Snapshot SnapshotOf(const Paths& where, uint64_t* epoch) {
    v1::Snapshot found;
    auto journal = OpenSqliteJournal(where);
    EXPECT_TRUE(journal.ok()) << journal.status();
    if (!journal.ok()) return found;
    *epoch = (*journal)->Epoch();
    const absl::Status replayed =
        (*journal)->Replay({.snapshot =
                                [&](const v1::Snapshot& snapshot) {
                                  found = snapshot;
                                  return absl::OkStatus();
                                },
                            .event = [](const v1::Event&) { return absl::OkStatus(); }});
    EXPECT_TRUE(replayed.ok()) << replayed;
    return found;
  }

  static constexpr int64_t kNowMs = 4'000'000'000'000;
  const Paths restored{dir.path() + "/restored"};
};

TEST_F(RestoreTest, BringsBackAllThatWasSaved) {
  const auto totals = Restore();
  ASSERT_TRUE(totals.ok()) << totals.status();
  EXPECT_EQ(Told(), "");
  EXPECT_EQ(Check(restored).findings, 0u) << Told();
  for (const std::string& path : {LogFile(paths, 4, 1), MetricFile(paths, 4, 1), paths.Lived(),
                                  BlobPath(kOfLive), BlobPath(kOfFinished)}) {
    const std::string name = path.substr(paths.Root().size());
    EXPECT_EQ(*common::ReadFile(restored.Root() + name), *common::ReadFile(path)) << name;
  }
  EXPECT_EQ(**ReadHighWater(restored), 2u);
  EXPECT_FALSE(common::Exists(restored.Root() + "/restoring"));
}

TEST_F(RestoreTest, NoNumberIsGivenOutTwice) {
  ASSERT_TRUE(Restore().ok());
  uint64_t epoch = 0;
  const v1::Snapshot snapshot = SnapshotOf(restored, &epoch);
  EXPECT_GT(epoch, uint64_t{kNowMs});
  EXPECT_GT(snapshot.next_job_id(), 100'000u);
  ASSERT_EQ(snapshot.jobs_size(), 1);
  EXPECT_GT(snapshot.jobs(0).next_attempt(), 1'000u);
  EXPECT_EQ(snapshot.jobs(0).checkpoints(0).files(0).sha256(), Name(kOfLive));
}

TEST_F(RestoreTest, ASecondRestoreOfOneBackupFollowsTheFirst) {
  ASSERT_TRUE(Restore().ok());
  uint64_t first = 0, second = 0;
  const v1::Snapshot before = SnapshotOf(restored, &first);
  ASSERT_TRUE(common::RemoveTree(restored.Root()).ok());
  ASSERT_TRUE(Restore(kNowMs + 3'600'000).ok());
  const v1::Snapshot after = SnapshotOf(restored, &second);
  EXPECT_GE(second, first + 3'600'000);
  EXPECT_EQ(after.next_job_id(), before.next_job_id() + 3'600);
  EXPECT_EQ(after.jobs(0).next_attempt(), before.jobs(0).next_attempt() + 60);
}

TEST_F(RestoreTest, OnlyAnEmptyDirectoryIsRestoredInto) {
  ASSERT_TRUE(common::MakeDirectories(restored.Root()).ok());
  Put(restored.Root() + "/notes", "mine");
  ExpectProblem(Restore().status(), "JC1608", "it is not empty");
  unlink((restored.Root() + "/notes").c_str());
  EXPECT_TRUE(Restore().ok());
}

TEST_F(RestoreTest, ABackupWithoutItsManifestIsNotOne) {
  unlink((backups + "/MANIFEST").c_str());
  ExpectProblem(Restore().status(), "JC1607", "it has no MANIFEST");
  Put(backups + "/UNFINISHED", "");
  ExpectProblem(Restore().status(), "JC1607", "was interrupted");
  EXPECT_FALSE(common::Exists(restored.Root()));
}

TEST_F(RestoreTest, ADamagedManifestIsRefused) {
  FlipByte(backups + "/MANIFEST", 30);
  ExpectProblem(Restore().status(), "JC1607", "cut off or damaged");
}

TEST_F(RestoreTest, ADamagedDatabaseInTheBackupIsRefusedBeforeAnythingIsStarted) {
  FlipByte(InBackup("muster.db"), 5'000);
  ExpectProblem(Restore().status(), "JC1607", "does not match its SHA-256");
  EXPECT_FALSE(common::Exists(restored.Database()));
}

TEST_F(RestoreTest, AnotherDamagedFileIsNamedAndTheRestIsRestored) {
  FlipByte(InBackup("logs/1/0/rank-0.stdout.seg"), 2);
  unlink(InBackup("metrics/4/1.seg").c_str());
  ASSERT_TRUE(Restore().ok());
  EXPECT_EQ(findings.size(), 2u) << Told();
  EXPECT_NE(Told().find("logs/1/0/rank-0.stdout.seg: is damaged in the backup"), std::string::npos);
  EXPECT_FALSE(common::Exists(LogFile(restored, 1, 0)));
  EXPECT_TRUE(common::Exists(LogFile(restored, 4, 1)));
}

TEST_F(RestoreTest, WhatIsStillToBeToldIsPartOfABackup) {
  Put(paths.Notify(), "cursor 1\n4 0 1700000000000\n");
  ASSERT_TRUE(Backup().ok());
  ASSERT_TRUE(Restore().ok());
  EXPECT_EQ(*common::ReadFile(restored.Notify()), "cursor 1\n4 0 1700000000000\n");
}

TEST_F(RestoreTest, NoLinkInTheBackupIsFollowed) {
  const std::string stored = InBackup("LIVED");
  Put(dir.path() + "/outside", "lived");
  unlink(stored.c_str());
  ASSERT_EQ(symlink((dir.path() + "/outside").c_str(), stored.c_str()), 0);
  ASSERT_TRUE(Restore().ok());
  EXPECT_NE(Told().find("is a symbolic link"), std::string::npos) << Told();
  EXPECT_FALSE(common::Exists(restored.Lived()));
}

TEST_F(RestoreTest, AManifestCannotPlantWhatIsNotInABackup) {
  Manifest manifest = *ReadManifest(backups);
  SavedFile planted = manifest.files.front();
  planted.path = "muster.db-wal";
  manifest.files.push_back(planted);
  Put(backups + "/MANIFEST", ManifestText(manifest));
  ASSERT_TRUE(Restore().ok());
  EXPECT_NE(Told().find("muster.db-wal: is not a file of a data directory"), std::string::npos);
}

TEST_F(RestoreTest, AnInterruptedLaterBackupIsTold) {
  Put(backups + "/UNFINISHED", "");
  EXPECT_TRUE(Restore()->newer_was_interrupted);
}

}  // namespace
}  // namespace muster::coordinator
