// Whose account ranks get, and what a thread that acts as it can open.
#include "worker/confinement/rank_account.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <future>
#include <string>

#include "common/files/files.h"
#include "common/problem.h"

namespace muster::worker {
namespace {

constexpr uint32_t kStranger = 12'345;

RunAs Owner() { return ParseRunAs("owner"); }

// "name:alice", "uid:1000", or "?" for an owner without an account.
std::string Named(const RunAs& run_as, std::string_view owner, std::string_view account) {
  const absl::StatusOr<AccountName> name = NameAccount(run_as, owner, account);
  if (!name.ok()) return "?";
  return name->uid ? "uid:" + std::to_string(*name->uid) : "name:" + name->name;
}

TEST(RunAs, OnlyRootOfASecuredClusterRunsAsOwnersUnasked) {
  EXPECT_EQ(RunAsText(DefaultRunAs(true, true)), "owner");
  EXPECT_EQ(RunAsText(DefaultRunAs(true, false)), "worker");
  EXPECT_EQ(RunAsText(DefaultRunAs(false, true)), "worker");
}

TEST(RunAs, TheFlagIsAWordOrAnAccount) {
  for (const char* text : {"owner", "worker", "daemon", "1000"}) {
    EXPECT_EQ(RunAsText(ParseRunAs(text)), text);
  }
  EXPECT_FALSE(ParseRunAs("worker").IsOther());
  EXPECT_TRUE(ParseRunAs("owner").IsOther());
}

TEST(RunAs, AnOwnersAccountIsWhatTheCoordinatorSaysOrTheOwnersName) {
  EXPECT_EQ(Named(Owner(), "user:alice", ""), "name:alice");
  EXPECT_EQ(Named(Owner(), "user:alice", "al"), "name:al");
  EXPECT_EQ(Named(Owner(), "user:alice", "1000"), "uid:1000");
  EXPECT_EQ(Named(Owner(), "uid:1000", ""), "uid:1000");
  EXPECT_EQ(Named(Owner(), "peer:10.0.0.7", ""), "?");
  EXPECT_EQ(Named(Owner(), "uid:-1", ""), "?");
  EXPECT_EQ(Named(Owner(), "uid:4294967295", ""), "?");
  EXPECT_EQ(Named(Owner(), "uid:", ""), "?");
  EXPECT_EQ(Named(Owner(), "user:", ""), "?");
  EXPECT_EQ(Named(Owner(), "", ""), "?");
}

TEST(RunAs, AUserWhoseNameIsANumberIsNotThatUid) {
  EXPECT_EQ(Named(Owner(), "user:0", ""), "name:0");
}

TEST(RunAs, OneAccountForAllJobsIgnoresTheOwner) {
  EXPECT_EQ(Named(ParseRunAs("daemon"), "user:alice", "root"), "name:daemon");
  EXPECT_EQ(Named(ParseRunAs("1"), "peer:10.0.0.7", ""), "uid:1");
}

TEST(RankAccount, RootIsRefusedUnlessAllowed) {
  for (const auto& [owner, account] : {std::pair("user:root", ""), std::pair("uid:0", ""),
                                       std::pair("user:a", "root"), std::pair("user:a", "0")}) {
    const auto refused = AccountFor(Owner(), "n1", owner, account);
    EXPECT_EQ(common::CodeOf(refused.status()), "JC1415") << owner << account;
  }
  const auto refused = AccountFor(Owner(), "n1", "user:root", "");
  EXPECT_EQ(refused.status().message(),
            "[JC1415] node n1: ranks are to run as account 'root', which is root's: refused; fix: "
            "give the job's owner another account (jobctl user set USER --account NAME), or start "
            "that worker with --allow-root");
  RunAs allowed = Owner();
  allowed.allows_root = true;
  const auto root = AccountFor(allowed, "n1", "user:root", "");
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_TRUE(root->ids.is_other);
}

TEST(RankAccount, AnAccountOfAServiceIsRefusedUnlessTheWorkersOperatorNamesIt) {
  for (const auto& [owner, account] : {std::pair("user:daemon", ""), std::pair("uid:1", ""),
                                       std::pair("user:a", "daemon"), std::pair("user:a", "1")}) {
    const auto refused = AccountFor(Owner(), "n1", owner, account);
    EXPECT_EQ(common::CodeOf(refused.status()), "JC1415") << owner << account;
    EXPECT_NE(refused.status().message().find("uid 1, which is a service's: refused"),
              std::string_view::npos)
        << refused.status();
  }
  EXPECT_TRUE(AccountFor(Owner(), "n1", "user:nobody", "").ok());
  EXPECT_TRUE(AccountFor(ParseRunAs("daemon"), "n1", "user:alice", "").ok());
}

TEST(RankAccount, AnAccountThatTheNodeLacksIsNamed) {
  const auto missing = AccountFor(Owner(), "n1", "user:no-such-person", "");
  EXPECT_EQ(common::CodeOf(missing.status()), "JC1414");
  EXPECT_NE(missing.status().message().find("account 'no-such-person': it does not exist"),
            std::string_view::npos)
      << missing.status();
  EXPECT_EQ(common::CodeOf(AccountFor(Owner(), "n1", "peer:10.0.0.7", "").status()), "JC1414");
  EXPECT_EQ(common::CodeOf(AccountFor(Owner(), "n1", "uid:4000000000", "").status()), "JC1414");
}

TEST(RankAccount, TheWorkersOwnNeedsNoLookup) {
  const auto own = AccountFor(ParseRunAs("worker"), "n1", "user:no-such-person", "");
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_FALSE(own->ids.is_other);
}

TEST(RankAccount, ItsRecordIsReadBack) {
  const std::string path = testing::TempDir() + "/account";
  RankAccount account;
  account.ids = {true, 1000, 100, {100, 27, 44}};
  account.name = "alice";
  account.home = "/home/a b";
  ASSERT_TRUE(common::WriteFileDurably(path, EncodeAccount(account)).ok());
  const RankAccount read = ReadAccount(path);
  EXPECT_EQ(EncodeAccount(read), EncodeAccount(account));
  EXPECT_TRUE(read.ids.is_other);
}

TEST(RankAccount, ADamagedRecordGivesNoRights) {
  const std::string path = testing::TempDir() + "/account";
  RankAccount account;
  account.ids = {true, 0, 0, {0}};
  const std::string whole = EncodeAccount(account);
  for (const std::string& text : {std::string(), whole.substr(0, whole.size() - 2), "x" + whole,
                                  std::string("muster-account 1\nuid x\ngid 0\nend\n")}) {
    ASSERT_TRUE(common::WriteFileDurably(path, text).ok());
    EXPECT_EQ(ReadAccount(path).ids.uid, 65'534u) << text;
  }
  unlink(path.c_str());
  EXPECT_FALSE(ReadAccount(path).ids.is_other);
}

class ActAsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root may act as another account";
    account_.ids = {true, kStranger, kStranger, {kStranger}};
    directory_ = testing::TempDir() + "/act-as-" + std::to_string(getpid());
    ASSERT_TRUE(common::MakeDirectories(directory_, 0755).ok());
    ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
    ASSERT_TRUE(common::WriteFileDurably(directory_ + "/secret", "s").ok());
  }
  void TearDown() override { common::RemoveTree(directory_).IgnoreError(); }
  bool CanRead() const { return common::ReadFile(directory_ + "/secret").ok(); }

  RankAccount account_;
  std::string directory_;
};

TEST_F(ActAsTest, TheThreadHasTheAccountsRightsToFilesAndNoOtherThreadHas) {
  ASSERT_TRUE(CanRead());
  std::promise<void> acts;
  auto other = std::async(std::launch::async, [&] {
    acts.get_future().wait();
    return CanRead();
  });
  {
    const ActAs acting(account_);
    EXPECT_FALSE(CanRead());
    acts.set_value();
    EXPECT_TRUE(other.get());
    {
      const ActAsWorker own;
      EXPECT_TRUE(CanRead());
    }
    EXPECT_FALSE(CanRead());
    ASSERT_TRUE(common::WriteFileDurably(directory_ + "/made", "m").ok());
  }
  EXPECT_TRUE(CanRead());
  struct stat info {};
  ASSERT_EQ(stat((directory_ + "/made").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, kStranger);
  EXPECT_EQ(info.st_gid, kStranger);
  EXPECT_EQ(chown((directory_ + "/made").c_str(), 0, 0), 0);
}

TEST_F(ActAsTest, WithoutAnotherAccountNothingChanges) {
  const ActAs acting{RankAccount()};
  const ActAsWorker own;
  EXPECT_TRUE(CanRead());
}

}  // namespace
}  // namespace muster::worker
