// The audit's file: what is on the disk, what a kill leaves, what a reader sees.
#include "coordinator/audit/audit.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <thread>
#include <utility>

#include "common/audit_chain.h"
#include "common/problem.h"
#include "coordinator/local/audit_files.h"
#include "coordinator/local/audit_store.h"
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
    audit = std::make_unique<Audit>(std::make_unique<LocalAuditStore>(directory), clock, queue_max);
    ASSERT_TRUE(audit->Open().ok());
  }
  absl::Status RecordAndWait(const std::string& who) {
    std::promise<absl::Status> told;
    audit->Record(EntryFor(who), *audit->Reserve(),
                  [&](const absl::Status& recorded) { told.set_value(recorded); });
    return told.get_future().get();
  }
  // The audit's first file cannot be made while its directory is away.
  void TakeDiskAway() { ASSERT_EQ(rename(directory.c_str(), away.c_str()), 0); }
  void BringDiskBack() { ASSERT_EQ(rename(away.c_str(), directory.c_str()), 0); }
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
    uint64_t first = 0;
    EXPECT_TRUE(
        CheckAudit(
            directory, [&](const auto& finding) { findings.push_back(finding); }, &entries, &first)
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
  const std::string away = temp.path() + "/away";
  const common::SystemClock clock;
  std::unique_ptr<Audit> audit;
};

TEST_F(AuditTest, AnEntryIsOnTheDiskWhenItsWaiterIsCalled) {
  ASSERT_TRUE(RecordAndWait("user:alice").ok());
  const auto entries = Entries();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].number(), 1u);
  EXPECT_EQ(entries[0].who(), "user:alice");
  EXPECT_GT(entries[0].at_ms(), 0);
  EXPECT_EQ(audit->head().hash(), entries[0].hash());
}

TEST_F(AuditTest, TheChainContinuesInTheNextRun) {
  ASSERT_TRUE(RecordAndWait("user:alice").ok());
  ASSERT_TRUE(RecordAndWait("user:bob").ok());
  Reopen();
  EXPECT_EQ(audit->head().number(), 2u);
  ASSERT_TRUE(RecordAndWait("user:carol").ok());
  EXPECT_EQ(Entries().back().number(), 3u);
  EXPECT_EQ(Findings(), std::vector<std::string>());
}

TEST_F(AuditTest, WhatNobodyWaitsForIsWrittenAtTheLatestByStop) {
  audit->Record(EntryFor("user:alice"), *audit->Reserve(), nullptr);
  audit->Stop();
  EXPECT_EQ(Entries().size(), 1u);
}

TEST_F(AuditTest, ATornEndIsCutAndTheChainContinues) {
  ASSERT_TRUE(RecordAndWait("user:alice").ok());
  audit->Stop();
  Append("{\"number\":\"2\",\"who\":\"us");
  Reopen();
  ASSERT_TRUE(RecordAndWait("user:bob").ok());
  EXPECT_EQ(Entries().size(), 2u);
  EXPECT_EQ(Findings(), std::vector<std::string>());
}

TEST_F(AuditTest, CompleteLinesThatAreNoEntriesAreKeptAside) {
  ASSERT_TRUE(RecordAndWait("user:alice").ok());
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
  ASSERT_TRUE(RecordAndWait("user:alice").ok());
  ASSERT_TRUE(RecordAndWait("user:bob").ok());
  audit->Stop();
  std::string text = *common::ReadFile(Newest());
  text.replace(text.find("user:alice"), 10, "user:mallo");
  ASSERT_TRUE(common::WriteFileDurably(Newest(), text).ok());
  ASSERT_EQ(Findings().size(), 1u);
  EXPECT_NE(Findings()[0].find("entry 1 was changed"), std::string::npos);
}

TEST_F(AuditTest, AFileThatIsTakenAwayOrChangedUnderItIsNoticedAndLeft) {
  const auto touches = std::vector<std::function<void(const std::string&)>>{
      [](const std::string& file) { ASSERT_EQ(unlink(file.c_str()), 0); },
      [](const std::string& file) { ASSERT_EQ(truncate(file.c_str(), 1), 0); },
      [](const std::string& file) {
        const std::string other = file + ".other";
        ASSERT_TRUE(common::WriteFileDurably(other, *common::ReadFile(file)).ok());
        ASSERT_EQ(rename(other.c_str(), file.c_str()), 0);
      }};
  ASSERT_TRUE(RecordAndWait("user:first").ok());
  for (const auto& touch : touches) {
    const std::string touched = Newest();
    touch(touched);
    ASSERT_TRUE(RecordAndWait("user:next").ok());
    EXPECT_NE(Newest(), touched) << "entries written there would be lost";
    const std::vector<v1::AuditEntry> entries =
        ReadAuditFile(ListAuditFiles(directory)->back())->entries;
    ASSERT_EQ(entries.size(), 2u);
    EXPECT_EQ(entries[0].who(), "coordinator");
    EXPECT_NE(entries[0].result().find("was removed, replaced or changed"), std::string::npos);
    EXPECT_EQ(entries[1].who(), "user:next");
    ASSERT_TRUE(RecordAndWait("user:again").ok());
    EXPECT_EQ(ReadAuditFile(ListAuditFiles(directory)->back())->entries.size(), 3u) << "once";
  }
}

TEST_F(AuditTest, WithoutAPlaceInTheQueueAChangeIsRefused) {
  Reopen(/*queue_max=*/1);
  auto place = audit->Reserve();
  ASSERT_TRUE(place.ok());
  EXPECT_TRUE(absl::IsResourceExhausted(audit->Reserve().status()));
  place = Audit::Place();
  EXPECT_TRUE(audit->Reserve().ok());
}

TEST_F(AuditTest, WhoWaitsForAnEntryThatCannotBeWrittenIsToldSo) {
  TakeDiskAway();
  std::vector<Audit::Place> places;
  for (int i = 0; i < 3; ++i) places.push_back(*audit->Reserve());
  std::vector<std::promise<absl::Status>> told(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    audit->Record(EntryFor("user:alice"), std::exchange(places[i], nullptr),
                  [&told, i](const absl::Status& recorded) { told[i].set_value(recorded); });
  }
  for (std::promise<absl::Status>& each : told) {
    const absl::Status recorded = each.get_future().get();
    EXPECT_EQ(common::CodeOf(recorded), "JC1344");
    EXPECT_NE(recorded.message().find("SetUser was done"), std::string::npos);
  }
  BringDiskBack();
}

TEST_F(AuditTest, WhileNothingCanBeWrittenChangesAreRefusedAndNothingIsLost) {
  TakeDiskAway();
  const Audit::Place begun = *audit->Reserve();
  EXPECT_EQ(common::CodeOf(RecordAndWait("user:alice")), "JC1344");
  const absl::Status refused = audit->Reserve().status();
  EXPECT_EQ(common::CodeOf(refused), "JC1336");
  EXPECT_NE(refused.message().find(directory), std::string::npos) << "it names the place and why";
  // Changes that had begun, and refusals.
  audit->Record(EntryFor("user:bob"), begun, nullptr);
  audit->RecordRefused(EntryFor("user:eve"));
  BringDiskBack();
  while (!audit->Reserve().ok()) std::this_thread::yield();
  EXPECT_TRUE(RecordAndWait("user:carol").ok());
  audit->Stop();
  EXPECT_EQ(Entries().size(), 4u);
  EXPECT_EQ(Findings(), std::vector<std::string>());
}

TEST_F(AuditTest, AnAuditThatStopsAnswersAllWhoWait) {
  TakeDiskAway();
  std::promise<absl::Status> before, after;
  audit->Record(EntryFor("user:alice"), *audit->Reserve(),
                [&](const absl::Status& recorded) { before.set_value(recorded); });
  audit->Stop();
  EXPECT_EQ(common::CodeOf(before.get_future().get()), "JC1344");
  audit->Record(EntryFor("user:bob"), nullptr,
                [&](const absl::Status& recorded) { after.set_value(recorded); });
  EXPECT_EQ(common::CodeOf(after.get_future().get()), "JC1344");
  BringDiskBack();
}

TEST_F(AuditTest, AFloodOfRefusalsIsCountedAndHidesNobodyElses) {
  for (int i = 0; i < 500; ++i) audit->RecordRefused(EntryFor("user:eve"));
  audit->RecordRefused(EntryFor("user:bob"));
  audit->Stop();
  const auto entries = Entries();
  EXPECT_GE(entries.size(), 21u);
  EXPECT_LE(entries.size(), 40u);
  EXPECT_EQ(entries.back().who(), "user:bob");
  EXPECT_NE(entries.back().result().find("0 refusals of user:bob and 4"), std::string::npos)
      << entries.back().result();
}

TEST_F(AuditTest, StrangersDoNotUseUpWhatMembersHave) {
  v1::AuditEntry stranger = EntryFor("token");
  for (int i = 0; i < 1'000; ++i) {
    stranger.set_from("peer:10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250));
    audit->RecordRefused(stranger);
  }
  audit->RecordRefused(EntryFor("user:bob"));
  audit->Stop();
  EXPECT_LE(Entries().size(), 150u);
  EXPECT_EQ(Entries().back().who(), "user:bob");
}

TEST_F(AuditTest, TextsCannotBreakALineOrFillTheDisk) {
  ASSERT_TRUE(
      RecordAndWait("user:\"eve\"\n{\"number\":\"7\"}" + std::string(5'000, 'x') + "\xff").ok());
  const auto entries = Entries();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_LT(entries[0].who().size(), 600u);
  EXPECT_EQ(Findings(), std::vector<std::string>());
}

TEST_F(AuditTest, APrivateCoordinatorKeepsNone) {
  Audit none(nullptr, clock);
  ASSERT_TRUE(none.Open().ok());
  bool told = false;
  none.Record(EntryFor("uid:1000"), *none.Reserve(),
              [&](const absl::Status& recorded) { told = recorded.ok(); });
  EXPECT_TRUE(told);
  EXPECT_EQ(none.head().number(), 0u);
}

}  // namespace
}  // namespace muster::coordinator
