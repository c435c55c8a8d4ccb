// Which coordinators a worker knows: what it is told on the command line, by its credentials and by a leader.
#include "worker/membership/known_heads.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "common/address_list.h"
#include "common/base/status.h"
#include "common/files/files.h"
#include "common/problem.h"
#include "common/text/strings.h"
#include "worker/base/addresses.h"
#include "worker/membership/enroll_in_turn.h"

namespace muster::worker {
namespace {

using Heads = std::vector<std::string>;

TEST(Addresses, AListIsSplitAtCommasOutsideOfPaths) {
  EXPECT_EQ(SplitAddresses("a:7700"), Heads{"a:7700"});
  EXPECT_EQ(SplitAddresses("a:7700,[::1]:7700"), (Heads{"a:7700", "[::1]:7700"}));
  EXPECT_EQ(SplitAddresses("unix:/a,b"), Heads{"unix:/a,b"});
  EXPECT_EQ(SplitAddresses("unix:/a,unix:/b"), (Heads{"unix:/a", "unix:/b"}));
  EXPECT_EQ(SplitAddresses("a:1,unix:/b"), (Heads{"a:1", "unix:/b"}));
  EXPECT_EQ(SplitAddresses(",a:1,"), (Heads{"", "a:1", ""}));
  EXPECT_EQ(common::JoinAddresses({"a:1", "b:1"}), "a:1,b:1");
}

TEST(Addresses, OnlyHostAndPortMayBeNamedOverTheNetwork) {
  for (const char* good : {"a:7700", "10.0.0.1:1", "[::1]:65535", "head-1.example.org:7700"}) {
    EXPECT_TRUE(IsHostPort(good)) << good;
  }
  for (const char* bad : {"",      "a",           "a:",        ":7700",    "a:0",       "a:65536",
                          "a:x",   "unix:/run/x", "unix:7700", "dns:7700", "ipv4:7700", "a b:1",
                          "a:1\n", "a:1/x",       "a:1,b:1",   "user@a:1", "[::1]",     "a:1?x",
                          "a:1#x", "dns:///a:1",  "\xff:1",    "a=b:1"}) {
    EXPECT_FALSE(IsHostPort(bad)) << bad;
  }
  EXPECT_FALSE(IsHostPort(std::string(kHeadBytesMax, 'a') + ":1"));
}

class KnownHeadsTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/mwkXXXXXX";
    directory = mkdtemp(name);
  }
  void TearDown() override { common::RemoveTree(directory).IgnoreError(); }
  std::string Path() const { return directory + "/coordinators"; }
  KnownHeads Open(Heads configured, std::string authority = "") {
    return KnownHeads(Path(), {std::move(configured), std::move(authority)},
                      [this](const std::string& line) { warnings.push_back(line); });
  }

  std::string directory;
  Heads warnings;
};

TEST_F(KnownHeadsTest, WhatALeaderNamesIsKnownAfterARestart) {
  KnownHeads heads = Open({"a:1"});
  EXPECT_EQ(heads.All(), Heads{"a:1"});
  heads.Learned("id", {"c:1", "a:1", "b:1"});
  EXPECT_EQ(heads.All(), (Heads{"a:1", "c:1", "b:1"})) << "configured first, each once";
  EXPECT_EQ(Open({"a:1"}).All(), (Heads{"a:1", "c:1", "b:1"}));
  EXPECT_EQ(Open({"b:1"}).All(), (Heads{"b:1", "c:1", "a:1"})) << "the same cluster";
  EXPECT_EQ(*common::ReadFile(Path()),
            "cluster=id\nauthority=\nconfigured=a:1\nhead=c:1\nhead=a:1\nhead=b:1\n");
}

TEST_F(KnownHeadsTest, AnotherClustersAreNotUsed) {
  Open({"a:1"}, "f00").Learned("id", {"a:1", "b:1"});
  EXPECT_EQ(Open({"x:1"}, "f00").All(), Heads{"x:1"}) << "none of its addresses is configured";
  EXPECT_EQ(Open({"a:1"}, "bad").All(), Heads{"a:1"}) << "joined to another authority";
  EXPECT_EQ(Open({"a:1"}).All(), Heads{"a:1"}) << "not joined";
  KnownHeads other = Open({"x:1"}, "f00");
  other.Learned("other", {"y:1"});
  EXPECT_EQ(other.All(), (Heads{"x:1", "y:1"}));
  EXPECT_EQ(Open({"a:1"}, "f00").All(), Heads{"a:1"}) << "the file is the other cluster's now";
}

TEST_F(KnownHeadsTest, AClusterOfOneCoordinatorLeavesNoFile) {
  KnownHeads heads = Open({"a:1"});
  heads.Learned("id", {});
  EXPECT_FALSE(common::Exists(Path()));
  heads.Learned("id", {"b:1"});
  EXPECT_TRUE(common::Exists(Path()));
  heads.Learned("new data directory", {});
  EXPECT_FALSE(common::Exists(Path()));
  EXPECT_EQ(heads.All(), Heads{"a:1"});
  EXPECT_TRUE(warnings.empty());
}

TEST_F(KnownHeadsTest, WhatCannotBeUsedIsIgnored) {
  KnownHeads heads = Open({"unix:/c"});
  heads.Learned("a\nhead=evil:1", {"unix:/etc/x", "b:1\nhead=evil:1", "", "b:1", "b:1"});
  EXPECT_EQ(heads.All(), (Heads{"unix:/c", "b:1"}));
  EXPECT_EQ(Open({"unix:/c"}).All(), (Heads{"unix:/c", "b:1"}));
  Heads many;
  for (int i = 0; i < 100; ++i) many.push_back(common::StrCat("h", i, ":1"));
  heads.Learned("id", many);
  EXPECT_EQ(heads.All().size(), kHeadsMax);
  ASSERT_TRUE(common::WriteFileAtomically(
                  Path(), "garbage\n=\nconfigured=unix:/c\nhead=unix:/x\nhead=z:1\nhead")
                  .ok());
  EXPECT_EQ(Open({"unix:/c"}).All(), (Heads{"unix:/c", "z:1"}));
}

TEST_F(KnownHeadsTest, ThoseThatComeLaterAreAddedAndThoseThatAreGoneMayReturn) {
  KnownHeads heads = Open({"a:1"});
  heads.AlsoLearned({"a:1", "b:1"});
  EXPECT_EQ(heads.All(), Heads{"a:1"}) << "of one that is alone";
  heads.Learned("id", {"a:1", "b:1"});
  heads.AlsoLearned({"a:1", "c:1", "unix:/x"});
  EXPECT_EQ(heads.All(), (Heads{"a:1", "c:1", "b:1"}));
  EXPECT_EQ(Open({"a:1"}).All(), (Heads{"a:1", "c:1", "b:1"}));
}

TEST_F(KnownHeadsTest, AFileThatCannotBeWrittenIsAWarning) {
  directory += "/none";
  KnownHeads heads = Open({"a:1"});
  heads.Learned("id", {"b:1"});
  EXPECT_EQ(heads.All(), (Heads{"a:1", "b:1"}));
  EXPECT_EQ(warnings.size(), 1u);
  directory.resize(directory.rfind('/'));
}

absl::Status Problem(absl::StatusCode code, const char* name) {
  return common::MakeProblem(code, {.code = name, .what = "refused"});
}

TEST(EnrollInTurn, TheFirstThatLeadsAnswers) {
  Heads asked;
  const auto answer = AskInTurn({"a:1", "b:1", "c:1"}, [&](const std::string& address) {
    asked.push_back(address);
    if (address == "a:1")
      return absl::StatusOr<identity::Credentials>(
          Problem(absl::StatusCode::kUnavailable, "JC1630"));
    return absl::StatusOr<identity::Credentials>(identity::Credentials{.http = address});
  });
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->http, "b:1");
  EXPECT_EQ(asked, (Heads{"a:1", "b:1"}));
}

TEST(EnrollInTurn, ARefusalIsNotTakenToTheNext) {
  int asked = 0;
  const auto answer = AskInTurn({"a:1", "b:1"}, [&](const std::string&) {
    ++asked;
    return absl::StatusOr<identity::Credentials>(
        Problem(absl::StatusCode::kPermissionDenied, "JC1335"));
  });
  EXPECT_TRUE(absl::IsPermissionDenied(answer.status()));
  EXPECT_EQ(asked, 1);
}

TEST(EnrollInTurn, WhatIsOverSoonIsReportedRatherThanSilence) {
  const auto code_of = [](std::vector<absl::Status> answers) {
    size_t at = 0;
    const auto answer = AskInTurn({"a:1", "b:1", "c:1"}, [&](const std::string&) {
      return absl::StatusOr<identity::Credentials>(answers[at++]);
    });
    return common::CodeOf(answer.status());
  };
  const absl::Status silent = Problem(absl::StatusCode::kUnavailable, "JC1301");
  const absl::Status standby = Problem(absl::StatusCode::kUnavailable, "JC1630");
  const absl::Status busy = Problem(absl::StatusCode::kUnavailable, "JC1356");
  const absl::Status foreign = Problem(absl::StatusCode::kUnauthenticated, "JC1354");
  EXPECT_EQ(code_of({silent, standby, silent}), "JC1630");
  EXPECT_EQ(code_of({standby, busy, standby}), "JC1356");
  EXPECT_EQ(code_of({foreign, silent, silent}), "JC1354");
}

TEST(EnrollInTurn, TheOthersListenOnThePortThatOneNames) {
  const Heads https = {"a:7701", "b:7701"};
  EXPECT_EQ(EndpointsOf(https, "b:7701", "b:7700"), (Heads{"a:7700", "b:7700"}));
  EXPECT_EQ(EndpointsOf(https, "b:7701", "inside:7700"), Heads{"inside:7700"});
  EXPECT_EQ(EndpointsOf({"[::1]:1", "a:2"}, "a:2", "a:3"), (Heads{"[::1]:3", "a:3"}));
}

}  // namespace
}  // namespace muster::worker
