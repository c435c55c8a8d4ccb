// Names from a hostile coordinator stay inside the directory that `ckpt pull` writes to.
#include "client/files/pull_target.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/text/relative_path.h"

namespace muster::client {
namespace {

class PullTargetTest : public testing::Test {
 protected:
  PullTargetTest() {
    char name[] = "/tmp/mptXXXXXX";
    root_ = mkdtemp(name);
  }
  ~PullTargetTest() override { common::RemoveTree(root_).IgnoreError(); }
  std::string root_;
};

TEST_F(PullTargetTest, FilesLieBelowIt) {
  const auto target = PullTarget::At(root_ + "/to");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_FALSE(target->OpenExisting("a/b/c").ok());
  ASSERT_TRUE(target->Create("a/b/c.part").ok());
  ASSERT_TRUE(target->Rename("a/b/c.part", "a/b/c").ok());
  EXPECT_TRUE(target->OpenExisting("a/b/c").ok());
  EXPECT_TRUE(common::Exists(root_ + "/to/a/b/c"));
  target->Remove("a/b/c");
  EXPECT_FALSE(common::Exists(root_ + "/to/a/b/c"));
}

TEST_F(PullTargetTest, NoNameLeadsOutside) {
  const auto target = PullTarget::At(root_ + "/to");
  ASSERT_TRUE(target.ok());
  using std::string_literals::operator""s;
  for (const std::string& name :
       {""s, "/etc/x"s, ".."s, "../x"s, "a/../../x"s, "a//b"s, "a/."s, "a/"s, "x\0y"s}) {
    EXPECT_FALSE(target->Create(name).ok()) << name;
    EXPECT_FALSE(common::StaysInside(name)) << name;
  }
}

TEST_F(PullTargetTest, LinksAndFifosInItAreNoWay) {
  ASSERT_EQ(mkdir((root_ + "/to").c_str(), 0755), 0);
  ASSERT_EQ(mkdir((root_ + "/outside").c_str(), 0755), 0);
  ASSERT_EQ(symlink("../outside", (root_ + "/to/link").c_str()), 0);
  ASSERT_EQ(symlink("../outside/file", (root_ + "/to/file").c_str()), 0);
  ASSERT_EQ(mkfifo((root_ + "/to/fifo").c_str(), 0644), 0);
  const auto target = PullTarget::At(root_ + "/to");
  ASSERT_TRUE(target.ok());
  EXPECT_FALSE(target->Create("link/x").ok());
  EXPECT_FALSE(target->Create("file").ok());
  EXPECT_FALSE(target->Create("fifo").ok());
  EXPECT_FALSE(target->OpenExisting("fifo").ok());
  EXPECT_FALSE(common::Exists(root_ + "/outside/x"));
  EXPECT_FALSE(common::Exists(root_ + "/outside/file"));
}

TEST_F(PullTargetTest, AJobsNameMustBeOneForADirectory) {
  ASSERT_EQ(chdir(root_.c_str()), 0);
  for (const char* name : {"", "..", ".ssh", "../x-3", "/tmp/x-3", "a/b-3", "a\u202E-3"}) {
    const auto target = PullTarget::ForJob(name, 7);
    ASSERT_FALSE(target.ok()) << name;
    EXPECT_EQ(target.status().message().find("[JC1504]"), 0u) << target.status();
  }
  ASSERT_EQ(mkdir("outside", 0755), 0);
  ASSERT_EQ(symlink("outside", "evil-4"), 0);
  EXPECT_FALSE(PullTarget::ForJob("evil-4", 7).ok());
  const auto target = PullTarget::ForJob("calm-otter-3", 7);
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_EQ(target->path(), "calm-otter-3/step-7");
  EXPECT_TRUE(common::Exists(root_ + "/calm-otter-3/step-7"));
  ASSERT_EQ(chdir("/"), 0);
}

}  // namespace
}  // namespace muster::client
