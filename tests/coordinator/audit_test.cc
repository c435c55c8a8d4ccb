// The audit's file: what is on the disk, what a kill leaves, what a reader sees.
#include "coordinator/audit/audit.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>

#include "common/audit_chain.h"
#include "coordinator/audit/audit_files.h"
#include "tests/coordinator/temp_dir.h"

namespace muster::coordinator {
namespace {

v1::AuditEntry EntryFor(const std::string& who) {
  v1::AuditEntry entry;
  entry.set_who(who);
  entry.set_what("SetUser");
  entry.set_result("ok");
  return entry;
}

class AuditTest : public testing::Test {
 protected:
  void SetUp() override { Reopen(); }
  void Reopen(size_t queue_max = Audit::kQueueMax) {
    audit.reset();
    audit = std::make_unique<Audit>(directory, clock, queue_max);
    ASSERT_TRUE(audit->Open().ok());
  }
  void RecordAndWait(const std::string& who) {
    std::mutex mutex;
    std::condition_variable wake;
    bool done = false;
    audit->Record(EntryFor(who), *audit->Reserve(), [&] {
      std::lock_guard lock(mutex);
      done = true;
      wake.notify_one();
    });
    std::unique_lock lock(mutex);
    wake.wait(lock, [&] { return done; });
  }
  std::vector<v1::AuditEntry> Entries() {
    std::vector<v1::AuditEntry> entries;
    const std::vector<AuditFile> files = *ListAuditFiles(directory);
    for (const AuditFile& file : files) {
      const AuditPart part = *ReadAuditFile(file);
      entries.insert(entries.end(), part.entries.begin(), part.entries.end());
    }
    return entries;
  }
  std::vector<std::string> Findings() {
    std::vector<std::string> findings;
    uint64_t entries = 0;
    EXPECT_TRUE(CheckAudit(
                    directory, [&](const auto& finding) { findings.push_back(finding); }, &entries)
                    .ok());
    return findings;
  }
  std::string Newest() { return ListAuditFiles(directory)->back().path; }
  void Append(const std::string& text) {
    const std::string whole = *common::ReadFile(Newest()) + text;
    ASSERT_TRUE(common::WriteFileDurably(Newest(), whole).ok());
  }

  const TempDir temp;
  const std::string directory = temp.path() + "/audit";
  const common::SystemClock clock;
  std::unique_ptr<Audit> audit;
};

TEST_F(AuditTest, AnEntryIsOnTheDiskWhenItsWaiterIsCalled) {
  RecordAndWait("user:alice");
  const auto entries = Entries();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].number(), 1u);
  EXPECT_EQ(entries[0].who(), "user:alice");
  EXPECT_GT(entries[0].at_ms(), 0);
  EXPECT_EQ(audit->head().hash(), entries[0].hash());
}

TEST_F(AuditTest, TheChainContinuesInTheNextRun) {
  RecordAndWait("user:alice");
  RecordAndWait("user:bob");
  Reopen();
  EXPECT_EQ(audit->head().number(), 2u);
  RecordAndWait("user:carol");
  EXPECT_EQ(Entries().back().number(), 3u);
  EXPECT_EQ(Findings(), std::vector<std::string>());
}

TEST_F(AuditTest, WhatNobodyWaitsForIsWrittenAtTheLatestByStop) {
  audit->Record(EntryFor("user:alice"), *audit->Reserve(), nullptr);
  audit->Stop();
  EXPECT_EQ(Entries().size(), 1u);
}

TEST_F(AuditTest, ATornEndIsCutAndTheChainContinues) {
  RecordAndWait("user:alice");
  audit->Stop();
  Append("{\"number\":\"2\",\"who\":\"us");
  Reopen();
  RecordAndWait("user:bob");
  EXPECT_EQ(Entries().size(), 2u);
  EXPECT_EQ(Findings(), std::vector<std::string>());
}

TEST_F(AuditTest, CompleteLinesThatAreNoEntriesAreKeptAside) {
  RecordAndWait("user:alice");
  audit->Stop();
  Append("not an entry\n");
  Reopen();
  int aside = 0;
  const std::vector<std::string> names = *common::ListDirectory(directory);
  for (const std::string& name : names) {
    aside += name.starts_with("cut-1-") ? 1 : 0;
  }
  EXPECT_EQ(aside, 1);
  EXPECT_EQ(Findings(), std::vector<std::string>());
}

TEST_F(AuditTest, AChangedLineIsFound) {
  RecordAndWait("user:alice");
  RecordAndWait("user:bob");
  audit->Stop();
  std::string text = *common::ReadFile(Newest());
  text.replace(text.find("user:alice"), 10, "user:mallo");
  ASSERT_TRUE(common::WriteFileDurably(Newest(), text).ok());
  ASSERT_EQ(Findings().size(), 1u);
  EXPECT_NE(Findings()[0].find("entry 1 was changed"), std::string::npos);
}

TEST_F(AuditTest, WithoutAPlaceInTheQueueAChangeIsRefused) {
  Reopen(/*queue_max=*/1);
  auto place = audit->Reserve();
  ASSERT_TRUE(place.ok());
  EXPECT_TRUE(absl::IsResourceExhausted(audit->Reserve().status()));
  place = Audit::Place();
  EXPECT_TRUE(audit->Reserve().ok());
}

TEST_F(AuditTest, AFloodOfRefusalsIsCountedInsteadOfRecorded) {
  for (int i = 0; i < 500; ++i) audit->RecordRefused(EntryFor("user:eve"));
  audit->Stop();
  EXPECT_GE(Entries().size(), 100u);
  EXPECT_LE(Entries().size(), 200u);
}

TEST_F(AuditTest, TextsCannotBreakALineOrFillTheDisk) {
  RecordAndWait("user:\"eve\"\n{\"number\":\"7\"}" + std::string(5'000, 'x') + "\xff");
  const auto entries = Entries();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_LT(entries[0].who().size(), 600u);
  EXPECT_EQ(Findings(), std::vector<std::string>());
}

TEST_F(AuditTest, APrivateCoordinatorKeepsNone) {
  Audit none("", clock);
  ASSERT_TRUE(none.Open().ok());
  bool told = false;
  none.Record(EntryFor("uid:1000"), *none.Reserve(), [&] { told = true; });
  EXPECT_TRUE(told);
  EXPECT_EQ(none.head().number(), 0u);
}

}  // namespace
}  // namespace muster::coordinator
