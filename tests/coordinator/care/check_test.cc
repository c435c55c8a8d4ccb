// What check finds in a data directory, and what repair does about it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coordinator/audit/audit.h"
#include "coordinator/base/data_lock.h"
#include "coordinator/care/report.h"
#include "coordinator/local/audit_files.h"
#include "coordinator/local/audit_store.h"
#include "coordinator/local/log_reader.h"
#include "coordinator/sqlite/replay.h"
#include "tests/coordinator/care/small_data.h"

namespace muster::coordinator {
namespace {

class CheckTest : public SmallData {
 protected:
  std::string Repair() {
    const CheckTotals totals = Check(paths);
    std::string changes;
    const absl::Status status = RepairData(paths, SqliteStateCare(paths), totals, kNowMs,
                                           [&](const std::string& path, const std::string& what) {
                                             changes += path + ": " + what + "\n";
                                           });
    EXPECT_TRUE(status.ok()) << status;
    return changes;
  }
  // Of files that Age() has not made old.
  const int64_t kNowMs = time(nullptr) * int64_t{1'000};
};

TEST_F(CheckTest, ASoundDirectoryIsCountedWithoutFindings) {
  const CheckTotals totals = Check(paths);
  EXPECT_EQ(totals.findings, 0u) << Told();
  EXPECT_EQ(totals.state->last_event, 2u);
  EXPECT_EQ(totals.state->live_jobs, 1u);
  EXPECT_EQ(totals.state->finished_jobs, 1u);
  EXPECT_EQ(totals.blobs.files, 2u);
  EXPECT_EQ(totals.segments.log_files, 2u);
  EXPECT_EQ(totals.segments.metric_bytes, common::ReadFile(MetricFile(paths, 4, 1))->size());
}

TEST_F(CheckTest, AChangedEntryOfTheAuditIsFound) {
  const common::SystemClock clock;
  Audit audit(std::make_unique<LocalAuditStore>(paths.AuditRoot()), clock);
  ASSERT_TRUE(audit.Open().ok());
  v1::AuditEntry entry;
  entry.set_who("user:alice");
  audit.Record(entry, *audit.Reserve(), nullptr);
  audit.Stop();
  EXPECT_EQ(Check(paths).findings, 0u) << Told();
  EXPECT_EQ(Check(paths).audit_entries, 1u);
  const std::string file = AuditFilePath(paths.AuditRoot(), 1);
  FlipByte(file, common::ReadFile(file)->find("alice"));
  EXPECT_EQ(Check(paths).findings, 1u);
  EXPECT_NE(Told().find("entry 1 was changed"), std::string::npos) << Told();
}

TEST_F(CheckTest, AFlippedByteInACheckpointFileIsFoundAndTheFileSetAside) {
  FlipByte(BlobPath(kOfLive), 3);
  EXPECT_EQ(Check(paths, /*quick=*/true).findings, 0u) << Told();
  EXPECT_NE(Repair().find("moved to damaged/"), std::string::npos);
  EXPECT_NE(Told().find(Name(kOfLive) + ": its 23 bytes do not match"), std::string::npos)
      << Told();
  EXPECT_TRUE(common::Exists(paths.DamagedRoot() + "/" + Name(kOfLive)));
  // The same bytes can come again.
  EXPECT_FALSE(*blobs->Keep(Name(kOfLive), kOfLive.size()));
  AddBlob(kOfLive);
  findings.clear();
  EXPECT_EQ(Check(paths).findings, 0u) << Told();
}

TEST_F(CheckTest, DamageInALogIsFoundAndStaysAGapThatIsCleanOtherwise) {
  const std::string log = LogFile(paths, 4, 1);
  FlipByte(log, common::ReadFile(log)->find("second"));
  FlipByte(MetricFile(paths, 4, 1), 3);  // of the head, which is there twice
  EXPECT_EQ(Check(paths).findings, 1u) << Told();
  EXPECT_NE(Told().find("logs/4/1/rank-0.stdout.seg: 7 bytes at offset"), std::string::npos)
      << Told();
  EXPECT_NE(Repair().find("rewritten with"), std::string::npos);
  findings.clear();
  EXPECT_EQ(Check(paths).findings, 0u) << Told();
  const auto cursor = LocalLogReader(paths).Open({.job = 4, .attempt = 1}, 0);
  std::string text;
  for (auto piece = cursor->Peek(); piece->has_value(); piece = cursor->Peek()) {
    text += std::string((*piece)->damaged, '?') + *cursor->Read(**piece);
    cursor->Advance();
  }
  EXPECT_EQ(text, "out of job 4\n???????third\n");
}

TEST_F(CheckTest, AFileInALogsPlaceIsSetAside) {
  Put(LogFile(paths, 1, 0), std::string(1'000, 'x'));
  EXPECT_EQ(Check(paths).findings, 1u) << Told();
  EXPECT_NE(Told().find("is not a segment"), std::string::npos) << Told();
  Repair();
  EXPECT_TRUE(common::Exists(LogFile(paths, 1, 0) + ".damaged"));
  findings.clear();
  EXPECT_EQ(Check(paths).findings, 0u) << Told();
}

TEST_F(CheckTest, WhatCannotBeReadIsNamedAndTheRestChecked) {
  const std::string log = LogFile(paths, 4, 1);
  const std::string of_another_attempt = paths.LogDirectory(4, 0) + "/rank-0.stdout.seg";
  unlink(log.c_str());
  ASSERT_EQ(mkfifo(log.c_str(), 0600), 0);
  ASSERT_TRUE(common::MakeDirectories(of_another_attempt).ok());
  FlipByte(BlobPath(kOfLive), 3);
  EXPECT_EQ(Check(paths).findings, 3u) << Told();
  EXPECT_NE(
      Told().find("logs/4/1/rank-0.stdout.seg: cannot be read: it is a symbolic link, a FIFO"),
      std::string::npos)
      << Told();
  EXPECT_NE(Told().find("logs/4/0/rank-0.stdout.seg: cannot be read: it is a directory"),
            std::string::npos)
      << Told();
  const std::string changes = Repair();
  EXPECT_NE(changes.find("logs/4/1/rank-0.stdout.seg: left as it is"), std::string::npos);
  EXPECT_NE(changes.find("moved to damaged/"), std::string::npos) << "the rest is repaired";
}

TEST_F(CheckTest, AQuickCheckFindsACheckpointFileOfAnotherSize) {
  Put(BlobPath(kOfFinished), "cut");
  EXPECT_EQ(Check(paths, /*quick=*/true).findings, 1u);
  EXPECT_NE(Told().find("has 3 bytes, not 23"), std::string::npos) << Told();
}

TEST_F(CheckTest, AMissingCheckpointFileOfALiveAndOfAFinishedJobIsFound) {
  unlink(BlobPath(kOfLive).c_str());
  unlink(BlobPath(kOfFinished).c_str());
  EXPECT_EQ(Check(paths).blobs.missing, 2u);
  EXPECT_NE(Told().find("is missing; job 1 refers to it"), std::string::npos) << Told();
  EXPECT_NE(Told().find("is missing; job 4 refers to it"), std::string::npos) << Told();
}

TEST_F(CheckTest, ADamagedDatabaseIsFoundAndLeftAsItIs) {
  std::string bytes = *common::ReadFile(paths.Database());
  bytes.replace(bytes.size() / 2, 4'096, 4'096, '\xa5');
  Put(paths.Database(), bytes);
  EXPECT_EQ(Repair(), "");
  EXPECT_NE(Told().find("muster.db: "), std::string::npos) << Told();
  EXPECT_NE(findings.front().fix.find("backup"), std::string::npos);
  EXPECT_EQ(*common::ReadFile(paths.Database()), bytes);
}

TEST_F(CheckTest, AMissingHighWaterIsFoundAndWrittenAgain) {
  unlink(paths.HighWater().c_str());
  EXPECT_NE(Repair().find("HIGHWATER: rewritten: event 2"), std::string::npos);
  EXPECT_NE(Told().find("HIGHWATER: is missing or empty"), std::string::npos) << Told();
  EXPECT_EQ(*common::ReadFile(paths.HighWater()), HighWaterText(2));
}

TEST_F(CheckTest, AHighWaterThatAKilledCoordinatorLeftBehindIsNoDamage) {
  Put(paths.HighWater(), "00000000000000000001\n");
  EXPECT_EQ(Check(paths).findings, 0u) << Told();
}

TEST_F(CheckTest, ADamagedHighWaterIsFoundRefusedAtTheStartAndWrittenAgain) {
  std::string flipped = HighWaterText(2);
  flipped[19] = '1';  // earlier: the database would look whole
  for (const std::string& damaged : {flipped, std::string("xyz"), std::string("2\n"),
                                     std::string(30, '\0'), HighWaterText(2) + "x"}) {
    Put(paths.HighWater(), damaged);
    {
      OpenedJournal opened(*OpenSqliteJournal(paths));
      const absl::Status refused = Replay(*opened.journal).status();
      ExpectProblem(refused, "JC1602", "HIGHWATER is damaged");
      EXPECT_NE(refused.message().find("muster-coordinator check"), std::string::npos);
    }
    EXPECT_NE(Repair().find("HIGHWATER: rewritten: event 2"), std::string::npos);
    EXPECT_NE(Told().find("HIGHWATER: "), std::string::npos) << Told();
    EXPECT_EQ(*common::ReadFile(paths.HighWater()), HighWaterText(2));
    EXPECT_TRUE(Replay(**OpenSqliteJournal(paths)).ok());
  }
}

TEST_F(CheckTest, AHighWaterWithoutAChecksumIsReadAsBefore) {
  EXPECT_TRUE(HighWaterText(7).starts_with("00000000000000000007 "));
  Put(paths.HighWater(), "00000000000000000002\n");
  EXPECT_EQ(**ReadHighWater(paths), 2u);
  // The older version wrote over one with a checksum.
  Put(paths.HighWater(), "00000000000000000003\n" + HighWaterText(2).substr(21));
  EXPECT_EQ(**ReadHighWater(paths), 3u);
}

TEST_F(CheckTest, ADatabaseThatEndsBeforeHighWaterIsFoundAndNotPapered) {
  Put(paths.HighWater(), "00000000000000000009\n");
  EXPECT_EQ(Repair(), "");
  EXPECT_NE(Told().find("event 9 was acknowledged"), std::string::npos) << Told();
}

TEST_F(CheckTest, ALinkAmongTheCheckpointFilesIsFoundAndNotFollowed) {
  const std::string outside = dir.path() + "/outside";
  Put(outside, "secret");
  ASSERT_EQ(symlink(outside.c_str(), (paths.BlobRoot() + "/link").c_str()), 0);
  EXPECT_EQ(Check(paths).blobs.files, 2u);
  EXPECT_NE(Told().find("blobs/sha256/link: is not a regular file"), std::string::npos) << Told();
}

TEST_F(CheckTest, AnUploadThatNothingWasAddedToForADayIsRemoved) {
  Put(paths.UploadRoot() + "/old.part", "1");
  Put(paths.UploadRoot() + "/new.part", "2");
  Age(paths.UploadRoot() + "/old.part");
  EXPECT_EQ(Repair(), "uploads/old.part: unfinished for over a day, removed\n");
  EXPECT_TRUE(common::Exists(paths.UploadRoot() + "/new.part"));
}

TEST_F(CheckTest, AProofOfAnUploadIsNoUnfinishedOne) {
  const std::string owner = paths.ProofRoot() + "/+7.0+any";
  ASSERT_TRUE(common::MakeDirectories(owner).ok());
  Put(paths.UploadRoot() + "/new.part", "2");
  for (const char* name : {"/young", "/old"}) Put(owner + name, "");
  Age(owner + "/old");
  EXPECT_EQ(Check(paths).blobs.uploads, 1u);
  EXPECT_EQ(Repair(), "") << "which is nothing to tell";
  EXPECT_FALSE(common::Exists(owner + "/old"));
  EXPECT_TRUE(common::Exists(owner + "/young"));
}

TEST_F(CheckTest, ARunningCoordinatorIsNamedWithItsPid) {
  const auto lock = LockDataDirectory(paths.Lock(), std::chrono::milliseconds(0));
  ExpectProblem(LockForCare(paths, SqliteStateCare(paths)).status(), "JC1604",
                "(pid " + std::to_string(getpid()) + ")");
}

TEST_F(CheckTest, WhatIsNotADataDirectoryIsRefused) {
  ExpectProblem(
      LockForCare(Paths(dir.path() + "/none"), SqliteStateCare(Paths(dir.path() + "/none")))
          .status(),
      "JC1608", "No such file");
  ExpectProblem(LockForCare(Paths(dir.path()), SqliteStateCare(Paths(dir.path()))).status(),
                "JC1608", "neither LOCK nor muster.db");
  EXPECT_FALSE(common::Exists(dir.path() + "/LOCK"));
  CheckTotals totals;
  ExpectProblem(
      CheckData(Paths(dir.path()), SqliteStateCare(Paths(dir.path())), false, Collect(), &totals),
      "JC1608", "no muster.db");
}

TEST_F(CheckTest, AnotherUsersDirectoryIsLeftAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give a directory away";
  ASSERT_EQ(chown(paths.Root().c_str(), 12'345, 12'345), 0);
  ExpectProblem(LockForCare(paths, SqliteStateCare(paths)).status(), "JC1608",
                "belongs to another user (uid 12345");
}

TEST_F(CheckTest, ALostDatabaseIsNotTakenForANewDirectory) {
  unlink(paths.Database().c_str());
  unlink(paths.HighWater().c_str());
  ExpectProblem(OpenSqliteJournal(paths).status(), "JC1606", "so it is not a new one");
  EXPECT_FALSE(common::Exists(paths.Database()));
  EXPECT_EQ(Check(paths).findings, 1u) << Told();
  // One kind of file is enough, and an empty database is none.
  for (const char* folder : {"/logs", "/metrics"}) {
    ASSERT_TRUE(common::RemoveTree(paths.Root() + folder).ok());
  }
  Put(paths.Database(), "");
  ExpectProblem(OpenSqliteJournal(paths).status(), "JC1606", "blobs/sha256/");
  ASSERT_TRUE(common::RemoveTree(paths.Root() + "/blobs").ok());
  ASSERT_TRUE(common::MakeDirectories(paths.Root() + "/logs/3/0").ok());
  EXPECT_TRUE(OpenSqliteJournal(paths).ok());
}

TEST(ReportTest, LinesAreBrokenAtBlanksAndPathsNever) {
  const std::string path(100, 'p');
  const std::string text = FindingText({path, "is damaged", std::string(66, 'f') + " then this"});
  EXPECT_EQ(text, path + ":\n  is damaged\n  fix: " + std::string(66, 'f') + " then\n    this");
}

}  // namespace
}  // namespace muster::coordinator
