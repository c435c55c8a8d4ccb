// What a backup holds, what a second one copies, and what stops one.
#include <fcntl.h>
#include <unistd.h>

#include <thread>

#include "coordinator/care/backup_target.h"
#include "coordinator/sqlite/code_store.h"
#include "coordinator/sqlite/database/database.h"
#include "tests/coordinator/care/small_data.h"
#include "tests/stores/small_disk.h"

namespace muster::coordinator {
namespace {

class BackupTest : public SmallData {
 protected:
  Manifest Saved() { return *ReadManifest(backups); }
  const SavedFile* SavedAs(const Manifest& manifest, const std::string& path) {
    for (const SavedFile& file : manifest.files) {
      if (file.path == path) return &file;
    }
    return nullptr;
  }
  std::string Relative(const std::string& path) { return path.substr(paths.Root().size() + 1); }
};

TEST_F(BackupTest, HoldsTheDatabaseAndAllThatItRefersTo) {
  const auto made = Backup();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(Told(), "");
  EXPECT_EQ(made->files, 7u);
  EXPECT_EQ(made->last_event, 2u);
  const Manifest manifest = Saved();
  for (const SavedFile& file : manifest.files) {
    const std::string bytes = *common::ReadFile(backups + "/" + file.stored);
    EXPECT_EQ(common::Sha256Hex(bytes), file.sha256) << file.path;
    EXPECT_EQ(bytes.size(), file.size) << file.path;
  }
  EXPECT_FALSE(common::Exists(backups + "/UNFINISHED"));
  // Written again from the database by a restore: this one may be ahead of the copy.
  EXPECT_EQ(SavedAs(manifest, "HIGHWATER"), nullptr);
}

TEST_F(BackupTest, HoldsTheCodeOfProjectsAndTellsWhatIsMissingOfIt) {
  const std::string code = "the code of a job", lost = "lost code";
  AddBlob(code);
  const auto store = *SqliteCodeStore::Open(paths, std::make_shared<WriteTurns>());
  ASSERT_TRUE(store->Add("vision", {Name(code), code.size()}, "user:alice", 1).ok());
  ASSERT_TRUE(Backup().ok());
  EXPECT_EQ(Told(), "");
  EXPECT_NE(SavedAs(Saved(), Relative(BlobPath(code))), nullptr);
  ASSERT_TRUE(store->Add("vision", {Name(lost), lost.size()}, "user:alice", 1).ok());
  ASSERT_TRUE(Backup().ok());
  EXPECT_EQ(Told(),
            Relative(BlobPath(lost)) + ": is missing; project vision uploaded it as code\n");
  findings.clear();
  const CheckTotals totals = Check(paths, /*quick=*/true);
  EXPECT_EQ(totals.blobs.files, 3u);
  EXPECT_EQ(totals.blobs.missing, 1u);
  EXPECT_NE(Told().find("project vision uploaded it as code"), std::string::npos) << Told();
}

TEST_F(BackupTest, HoldsTheAuditAndWhichClusterItIs) {
  Put(paths.AuditRoot() + "/00000000000000000001.jsonl", "{}\n");
  Put(paths.Root() + "/CLUSTER", "name: lab\n");
  ASSERT_TRUE(Backup().ok());
  EXPECT_NE(SavedAs(Saved(), "audit/00000000000000000001.jsonl"), nullptr) << Told();
  EXPECT_NE(SavedAs(Saved(), "CLUSTER"), nullptr) << Told();
}

TEST_F(BackupTest, IsMadeWhileTheJournalIsOpenAndHoldsWhatIsOnlyInItsLog) {
  OpenedJournal running(*OpenSqliteJournal(paths));
  running.Start();
  running.journal->Append(RecordOf(2, {ReasonEvent(3, 4, "c")}));
  ASSERT_TRUE(running.WaitFor(2).ok());
  const auto made = Backup();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->last_event, 3u);
  running.journal->Append(RecordOf(3, {ReasonEvent(4, 4, "d")}));
  EXPECT_TRUE(running.WaitFor(3).ok());
}

TEST_F(BackupTest, ASecondOneCopiesOnlyWhatIsNew) {
  for (const std::string& path : {kLog1, kLog4, kMetrics4}) Age(paths.Root() + "/" + path);
  ASSERT_TRUE(Backup().ok());
  Put(paths.Root() + "/" + kLog4, "out of job 4, and more\n");
  const auto second = Backup();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->copied_files, 3u);  // the database, LIVED, the log that grew
  EXPECT_EQ(second->files, 7u);
  const Manifest manifest = Saved();
  EXPECT_EQ(SavedAs(manifest, kLog1)->stored, "1/" + kLog1);
  EXPECT_EQ(SavedAs(manifest, kLog4)->stored, "2/" + kLog4);
  // What no backup needs any more is gone.
  EXPECT_FALSE(common::Exists(backups + "/1/muster.db"));
  EXPECT_FALSE(common::Exists(backups + "/1/" + kLog4));
}

TEST_F(BackupTest, AFileThatMayHaveChangedWithinATickOfItsClockIsCopiedAgain) {
  ASSERT_TRUE(Backup().ok());
  EXPECT_EQ(Backup()->copied_files, 5u);  // all but the two checkpoint files
}

TEST_F(BackupTest, TheLastWholeOneStaysWholeWhenTheNextFails) {
  ASSERT_TRUE(Backup().ok());
  const Manifest before = Saved();
  std::string bytes = *common::ReadFile(paths.Database());
  bytes.replace(bytes.size() / 4, bytes.size() / 2, bytes.size() / 2, '\xa5');
  Put(paths.Database(), bytes);
  const auto failed = Backup();
  ExpectProblem(failed.status(), "JC1602", paths.Database());
  EXPECT_EQ(ManifestText(Saved()), ManifestText(before));
  for (const SavedFile& file : before.files) {
    EXPECT_EQ(common::Sha256Hex(*common::ReadFile(backups + "/" + file.stored)), file.sha256);
  }
  EXPECT_FALSE(common::Exists(backups + "/2"));
}

TEST_F(BackupTest, ADamagedCheckpointFileIsLeftOutAndNamed) {
  FlipByte(BlobPath(kOfLive), 1);
  ASSERT_TRUE(Backup().ok());
  ASSERT_EQ(findings.size(), 1u) << Told();
  EXPECT_NE(Told().find("do not match the SHA-256"), std::string::npos) << Told();
  EXPECT_FALSE(common::Exists(backups + "/" + Relative(BlobPath(kOfLive))));
}

TEST_F(BackupTest, ACheckpointFileThatIsLostLaterIsKeptFromTheEarlierBackup) {
  ASSERT_TRUE(Backup().ok());
  unlink(BlobPath(kOfLive).c_str());
  FlipByte(BlobPath(kOfFinished), 1);
  ASSERT_TRUE(Backup().ok());
  EXPECT_EQ(Told(), "");
  EXPECT_EQ(*common::ReadFile(backups + "/" + Relative(BlobPath(kOfLive))), kOfLive);
  EXPECT_EQ(*common::ReadFile(backups + "/" + Relative(BlobPath(kOfFinished))), kOfFinished);
}

TEST_F(BackupTest, AMissingCheckpointFileIsNamed) {
  unlink(BlobPath(kOfLive).c_str());
  ASSERT_TRUE(Backup().ok());
  EXPECT_NE(Told().find("is missing; job 4 refers to it"), std::string::npos) << Told();
}

TEST_F(BackupTest, FilesOfAJobThatTheDatabaseDoesNotKnowYetAreLeftOut) {
  Put(LogFile(paths, 5, 0), "submitted since");
  EXPECT_EQ(Backup()->files, 7u);
}

TEST_F(BackupTest, NoLinkLeadsOutOfTheDataDirectory) {
  Put(dir.path() + "/outside", "secret");
  const std::string link = LogFile(paths, 1, 0, 1);
  ASSERT_EQ(symlink((dir.path() + "/outside").c_str(), link.c_str()), 0);
  ASSERT_TRUE(Backup().ok());
  EXPECT_NE(Told().find("rank-1.stdout.seg: is a link"), std::string::npos) << Told();
  EXPECT_FALSE(common::Exists(backups + "/1/" + Relative(link)));
  // A folder that is kept elsewhere would silently be missing.
  ASSERT_EQ(rename(paths.LogRoot().c_str(), (dir.path() + "/logs").c_str()), 0);
  ASSERT_EQ(symlink((dir.path() + "/logs").c_str(), paths.LogRoot().c_str()), 0);
  ExpectProblem(Backup().status(), "JC1608", "is a symbolic link");
}

TEST_F(BackupTest, NoLinkInTheTargetIsFollowed) {
  ASSERT_TRUE(common::MakeDirectories(backups).ok());
  ASSERT_TRUE(common::MakeDirectories(dir.path() + "/elsewhere").ok());
  Put(backups + "/UNFINISHED", "");
  ASSERT_EQ(symlink((dir.path() + "/elsewhere").c_str(), (backups + "/blobs").c_str()), 0);
  EXPECT_FALSE(Backup().ok());
  EXPECT_TRUE(common::ListDirectory(dir.path() + "/elsewhere")->empty());
}

TEST_F(BackupTest, ATargetInsideTheDataDirectoryOrAroundItIsRefused) {
  for (const std::string& to :
       {paths.Root() + "/backup", paths.Root(), dir.path(), dir.path() + "/x/../data/./backup"}) {
    const auto made =
        MakeBackup({paths.Root(), to}, SqliteStateCare(paths), Collect(), [](uint64_t) {});
    ExpectProblem(made.status(), "JC1608", "lies inside the other");
  }
  EXPECT_FALSE(common::Exists(paths.Root() + "/backup"));
}

TEST_F(BackupTest, ADirectoryWithOtherThingsOrOfAnotherClusterIsRefused) {
  Put(backups + "/thesis.tex", "");
  ExpectProblem(Backup().status(), "JC1608", "thesis.tex");
  unlink((backups + "/thesis.tex").c_str());
  ASSERT_TRUE(Backup().ok());
  ASSERT_TRUE((*Database::Open(paths.Database(), Database::Mode::kReadWrite))
                  ->Execute("UPDATE meta SET value = 77 WHERE key = 'cluster'")
                  .ok());
  ExpectProblem(Backup().status(), "JC1608", "another data directory");
}

TEST_F(BackupTest, ALostDatabaseDoesNotReplaceTheBackupOfIt) {
  ASSERT_TRUE(Backup().ok());
  const std::string before = ManifestText(Saved());
  Put(paths.Database(), "");
  ExpectProblem(Backup().status(), "JC1606", "is missing");
  EXPECT_EQ(ManifestText(Saved()), before);
  ExpectProblem(
      MakeBackup({dir.path() + "/nowhere", backups},
                 SqliteStateCare(Paths(dir.path() + "/nowhere")), Collect(), [](uint64_t) {})
          .status(),
      "JC1608", "not a coordinator's data directory");
}

TEST_F(BackupTest, WhatAnInterruptedOneLeftIsNotTakenForABackupAndGoes) {
  Put(backups + "/UNFINISHED", "");
  Put(backups + "/1/muster.db", "half");
  Put(backups + "/" + Relative(BlobPath(kOfLive)), std::string(kOfLive.size(), '\0'));
  EXPECT_TRUE(absl::IsNotFound(ReadManifest(backups).status()));
  ASSERT_TRUE(Backup().ok());
  EXPECT_EQ(*common::ReadFile(backups + "/" + Relative(BlobPath(kOfLive))), kOfLive);
}

TEST_F(BackupTest, TwoAtOnceIntoOneDirectoryAreRefused) {
  ASSERT_TRUE(Backup().ok());
  const auto lock = common::LockFile(backups + "/LOCK");
  ExpectProblem(Backup().status(), "JC1604", "another backup");
}

TEST_F(BackupTest, AFullDiskIsNamedAndLeavesNoManifest) {
  AddBlob(std::string(100'000, 'x'));
  ASSERT_TRUE(common::MakeDirectories(backups).ok());
  bool is_there = false;
  std::thread([&] {
    SmallDisk disk(backups);
    is_there = disk.IsThere();
    if (!is_there) return;
    ExpectProblem(Backup().status(), "JC1605", "the disk of " + backups + " is full");
    EXPECT_FALSE(common::Exists(backups + "/MANIFEST"));
    EXPECT_FALSE(common::Exists(backups + "/1"));
  }).join();
  if (!is_there) GTEST_SKIP() << "needs the right to mount";
}

TEST(ManifestTest, ComesBackAndIsRefusedWhenAnyOfItIsMissing) {
  const Manifest manifest{.cluster = "00000000000000ab",
                          .number = 3,
                          .made_ms = 1'700'000'000'000,
                          .last_event = 42,
                          .files = {{"muster.db", "3/muster.db", 9, common::Sha256Hex("x"), 7}}};
  const std::string text = ManifestText(manifest);
  const auto parsed = ParseManifest(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(ManifestText(*parsed), text);
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(ParseManifest(text.substr(0, size)).ok()) << size;
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(ParseManifest("muster-backup 2 x\n").status()));
}

TEST(ManifestTest, APathThatLeadsOutOfItsDirectoryIsRefused) {
  for (const char* path : {"../muster.db", "/etc/passwd", "logs/../../x", "a\\b", "logs//1", ""}) {
    EXPECT_FALSE(IsSavedName(path)) << path;
    const Manifest manifest{.cluster = "ab", .files = {{path, "1/x", 0, common::Sha256Hex(""), 0}}};
    EXPECT_FALSE(ParseManifest(ManifestText(manifest)).ok()) << path;
  }
}

}  // namespace
}  // namespace muster::coordinator
