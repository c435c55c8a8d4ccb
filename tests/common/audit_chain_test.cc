#include "common/audit_chain.h"

#include <gtest/gtest.h>

namespace muster::common {
namespace {

std::vector<v1::AuditEntry> Chain(int count) {
  std::vector<v1::AuditEntry> entries;
  for (int i = 1; i <= count; ++i) {
    v1::AuditEntry& entry = entries.emplace_back();
    entry.set_number(static_cast<uint64_t>(i));
    entry.set_at_ms(1'000 + i);
    entry.set_who("user:alice");
    entry.set_what("CancelJobs");
    entry.set_result("ok");
    if (i > 1) entry.set_previous(entries[entries.size() - 2].hash());
    entry.set_hash(AuditHash(entry));
  }
  return entries;
}

v1::AuditHead HeadOf(const v1::AuditEntry& entry) {
  v1::AuditHead head;
  head.set_number(entry.number());
  head.set_hash(entry.hash());
  return head;
}

std::vector<std::string> FindingsOf(const std::vector<v1::AuditEntry>& entries,
                                    std::vector<v1::AuditHead> kept = {}) {
  AuditChain chain(std::move(kept));
  for (const v1::AuditEntry& entry : entries) chain.Add(entry);
  chain.Finish();
  return chain.findings();
}

TEST(AuditChainTest, AWholeChainHasNothingToFind) {
  const auto entries = Chain(5);
  EXPECT_EQ(FindingsOf(entries, {HeadOf(entries[2]), HeadOf(entries[4])}),
            std::vector<std::string>());
  EXPECT_EQ(FindingsOf({}), std::vector<std::string>());
}

TEST(AuditChainTest, AChangedEntryIsNamed) {
  auto entries = Chain(5);
  entries[2].set_who("user:bob");
  ASSERT_EQ(FindingsOf(entries).size(), 1u);
  EXPECT_EQ(FindingsOf(entries)[0], "entry 3 was changed: its hash does not match");
}

TEST(AuditChainTest, AnEntryWithARenewedHashNoLongerFitsTheNextOne) {
  auto entries = Chain(5);
  entries[2].set_who("user:bob");
  entries[2].set_hash(AuditHash(entries[2]));
  ASSERT_EQ(FindingsOf(entries).size(), 1u);
  EXPECT_NE(FindingsOf(entries)[0].find("entry 4 does not follow"), std::string::npos);
}

TEST(AuditChainTest, RemovedEntriesAreNamed) {
  auto entries = Chain(5);
  entries.erase(entries.begin() + 1, entries.begin() + 3);
  EXPECT_EQ(FindingsOf(entries)[0], "entries 2 to 3 are missing");
}

TEST(AuditChainTest, ACutEndIsSeenByWhoKeptAHead) {
  auto entries = Chain(5);
  const v1::AuditHead kept = HeadOf(entries[4]);
  entries.resize(3);
  EXPECT_TRUE(FindingsOf(entries).empty()) << "nothing inside tells";
  ASSERT_EQ(FindingsOf(entries, {kept}).size(), 1u);
  EXPECT_NE(FindingsOf(entries, {kept})[0].find("its end was cut off"), std::string::npos);
}

TEST(AuditChainTest, ARewrittenAuditIsSeenByWhoKeptAHead) {
  const v1::AuditHead kept = HeadOf(Chain(5)[3]);
  auto entries = Chain(5);
  entries[0].set_who("user:bob");
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i > 0) entries[i].set_previous(entries[i - 1].hash());
    entries[i].set_hash(AuditHash(entries[i]));
  }
  EXPECT_TRUE(FindingsOf(entries).empty()) << "nothing inside tells";
  EXPECT_NE(FindingsOf(entries, {kept})[0].find("entry 4 is not the one"), std::string::npos);
}

TEST(AuditChainTest, AnAuditWhoseOldFilesWereArchivedBeginsLater) {
  auto entries = Chain(5);
  entries.erase(entries.begin(), entries.begin() + 2);
  EXPECT_TRUE(FindingsOf(entries).empty());
  AuditChain rest;
  for (const v1::AuditEntry& entry : entries) rest.Add(entry);
  EXPECT_EQ(rest.first(), 3u);
  EXPECT_EQ(HeadText(rest.before()), HeadText(HeadOf(Chain(5)[1]))) << "of what was moved away";
  AuditChain whole;
  for (const v1::AuditEntry& entry : Chain(2)) whole.Add(entry);
  EXPECT_EQ(whole.before().number(), 0u);
  const auto findings = FindingsOf(entries, {HeadOf(Chain(5)[0])});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_NE(findings[0].find("cannot be compared"), std::string::npos);
}

TEST(AuditChainTest, AHeadIsReadAsItIsPrinted) {
  const v1::AuditHead head = HeadOf(Chain(2)[1]);
  const auto read = ParseHead(HeadText(head));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->hash(), head.hash());
  EXPECT_EQ(read->number(), 2u);
  for (const char* wrong : {"", "2", "2:", "2:ab", "0:", "x:00"}) {
    EXPECT_FALSE(ParseHead(wrong).has_value()) << wrong;
  }
}

}  // namespace
}  // namespace muster::common
