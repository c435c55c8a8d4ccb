#include "worker/membership/audit_heads.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/files/files.h"

namespace muster::worker {
namespace {

constexpr int64_t kApartMs = AuditHeads::kApartMs;

v1::AuditHead HeadNumber(uint64_t number, char byte = 'a') {
  v1::AuditHead head;
  head.set_number(number);
  head.set_hash(std::string(32, byte));
  return head;
}

class AuditHeadsTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/mwhXXXXXX";
    directory = mkdtemp(name);
    Reopen();
  }
  void TearDown() override { common::RemoveTree(directory).IgnoreError(); }
  void Reopen() {
    heads = std::make_unique<AuditHeads>(
        Path(), [this](const std::string& text) { warnings.push_back(text); });
  }
  std::string Path() const { return directory + "/audit-heads"; }
  size_t Lines() const {
    const auto text = common::ReadFile(Path());
    if (!text.ok()) return 0;
    return static_cast<size_t>(std::count(text->begin(), text->end(), '\n'));
  }

  std::string directory;
  std::vector<std::string> warnings;
  std::unique_ptr<AuditHeads> heads;
};

TEST_F(AuditHeadsTest, HeadsOfTheLastHoursAreKept) {
  for (uint64_t hour = 1; hour <= 100; ++hour) {
    heads->Saw(HeadNumber(hour), static_cast<int64_t>(hour) * kApartMs);
  }
  EXPECT_EQ(Lines(), AuditHeads::kKept);
  EXPECT_NE(common::ReadFile(Path())->find(" 100:6161"), std::string::npos);
  EXPECT_TRUE(warnings.empty());
}

TEST_F(AuditHeadsTest, WithinAnHourTheNewestReplacesTheOneBefore) {
  for (uint64_t number = 1; number <= 50; ++number) {
    heads->Saw(HeadNumber(number), kApartMs + static_cast<int64_t>(number) * 60'000);
  }
  EXPECT_EQ(Lines(), 2u);
}

TEST_F(AuditHeadsTest, AnAuditThatWentBackIsSeenAlsoAfterARestart) {
  heads->Saw(HeadNumber(7), kApartMs);
  Reopen();
  heads->Saw(HeadNumber(7), 2 * kApartMs);
  EXPECT_TRUE(warnings.empty());
  heads->Saw(HeadNumber(5), 2 * kApartMs);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("before=7:6161"), std::string::npos);
  EXPECT_EQ(Lines(), 2u) << "the hash of before stays";
}

TEST_F(AuditHeadsTest, AnAuditThatWasRewrittenIsSeen) {
  heads->Saw(HeadNumber(7, 'a'), kApartMs);
  heads->Saw(HeadNumber(7, 'b'), 2 * kApartMs);
  EXPECT_EQ(warnings.size(), 1u);
}

}  // namespace
}  // namespace muster::worker
