#include "worker/preparation/code_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <optional>

#include "common/files/files.h"

namespace muster::worker {
namespace {

class CodeCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/muster-cache-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    base_ = pattern;
    paths_ = Paths(base_, base_ + "/run");
    ASSERT_TRUE(common::MakeDirectories(paths_.Attempts()).ok());
    ASSERT_TRUE(cache_.emplace(paths_, Options(250)).Open().ok());
  }
  void TearDown() override { EXPECT_TRUE(common::RemoveTree(base_).ok()); }
  static CodeCache::Options Options(uint64_t bytes_max) {
    return {.node = "node1", .for_others = true, .bytes_max = bytes_max};
  }
  std::string Add(const std::string& name, uint64_t bytes) {
    const std::string path = cache_->TreePath("p", name);
    EXPECT_TRUE(common::MakeDirectories(path).ok());
    EXPECT_TRUE(cache_->Complete(path, bytes).ok());
    return path;
  }

  std::string base_;
  Paths paths_;
  std::optional<CodeCache> cache_;
};

TEST_F(CodeCacheTest, TheLeastRecentlyUsedGoesFirstAndNeverWhatIsHeld) {
  const std::string held = Add("a", 100), used = Add("b", 100), other = Add("c", 100);
  const CodeCache::Pin pin = cache_->Hold(held);
  // Both were made at once, as far as the file system's clock tells.
  const timespec long_ago[2] = {{1, 0}, {1, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, (used + "/size").c_str(), long_ago, 0), 0);
  EXPECT_TRUE(cache_->Use(used));
  ASSERT_EQ(utimensat(AT_FDCWD, (other + "/size").c_str(), long_ago, 0), 0);
  cache_->Collect();
  EXPECT_TRUE(common::Exists(held));
  EXPECT_TRUE(common::Exists(used));
  EXPECT_FALSE(common::Exists(other));
}

TEST_F(CodeCacheTest, NamesOfSetupsAreKnownToThisWorkerAlone) {
  const std::string name = cache_->SetupPath({"p", "tree"});
  EXPECT_EQ(cache_->SetupPath({"p", "tree"}), name);
  EXPECT_NE(cache_->SetupPath({"ptree"}), name);
  CodeCache same(paths_, Options(250));
  ASSERT_TRUE(same.Open().ok());
  EXPECT_EQ(same.SetupPath({"p", "tree"}), name) << "a restarted worker finds it again";
  ASSERT_EQ(unlink((paths_.CodeDir() + "/secret").c_str()), 0);
  CodeCache other(paths_, Options(250));
  ASSERT_TRUE(other.Open().ok());
  EXPECT_NE(other.SetupPath({"p", "tree"}), name);
}

TEST_F(CodeCacheTest, TooLittleSpaceIsOneErrorThatNamesNodePathNeedAndFix) {
  const std::string unused = Add("a", 1);
  const absl::Status full = cache_->MakeRoom("the job's code", uint64_t{1} << 60);
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_NE(full.message().find("node node1 has no room for the job's code: " + paths_.CodeDir()),
            std::string::npos)
      << full;
  EXPECT_FALSE(common::Exists(unused)) << "what nothing uses went first";
}

TEST_F(CodeCacheTest, OtherAccountsCannotListWhatIsThere) {
  struct stat info {};
  ASSERT_EQ(stat(paths_.CodeSetups().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0711u);
  ASSERT_EQ(stat(paths_.CodeTrees().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

}  // namespace
}  // namespace muster::worker
