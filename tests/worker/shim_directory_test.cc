// What an attempt's directory says of its shim (worker/launch/shim_client.h), whatever lies there.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "common/files/files.h"
#include "worker/launch/leftovers.h"
#include "worker/launch/shim_client.h"

namespace muster::worker {
namespace {

class ShimDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/muster-shim-dir-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { EXPECT_TRUE(common::RemoveTree(directory_).ok()); }
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  void Write(const std::string& name, const std::string& content) const {
    ASSERT_TRUE(common::WriteFileDurably(Path(name), content).ok());
  }

  std::string directory_;
};

TEST_F(ShimDirectory, WithoutALaunchFileNothingWasStarted) {
  EXPECT_TRUE(absl::IsNotFound(ReadShimLaunch(directory_).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadExitRecord(directory_).status()));
  EXPECT_FALSE(ShimLives(directory_));
  EXPECT_TRUE(KillAttempt(directory_, 0).empty);
  EXPECT_TRUE(absl::IsNotFound(ShimClient::Adopt(directory_, 0).status()));
}

TEST_F(ShimDirectory, FilesThatCannotBeReadAreNamed) {
  const std::string launch = common::EncodeShimLaunch({});
  const std::string exit = common::EncodeExitRecord({.job = 7});
  Write(common::kLaunchFileName, launch.substr(0, launch.size() / 2));
  Write(common::kExitRecordName, exit.substr(0, exit.size() / 2));
  EXPECT_EQ(
      ReadShimLaunch(directory_).status(),
      absl::DataLossError(Path(common::kLaunchFileName) + " is damaged or of another version"));
  EXPECT_EQ(ReadExitRecord(directory_).status(),
            absl::DataLossError(Path(common::kExitRecordName) + " is damaged"));
}

TEST_F(ShimDirectory, AFifoInPlaceOfAFileHoldsNobodyUp) {
  ASSERT_EQ(mkfifo(Path(common::kLaunchFileName).c_str(), 0600), 0);
  ASSERT_EQ(mkfifo(Path(common::kExitRecordName).c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(ReadShimLaunch(directory_).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadExitRecord(directory_).status()));
  EXPECT_FALSE(ShimLives(directory_));
}

TEST_F(ShimDirectory, AShimLivesWhileItsLockIsHeld) {
  Write(common::kLaunchFileName, "");
  EXPECT_FALSE(ShimLives(directory_));
  const common::UniqueFd held(open(Path(common::kLaunchFileName).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(flock(held.get(), LOCK_EX), 0);
  EXPECT_TRUE(ShimLives(directory_));
}

TEST_F(ShimDirectory, AnAttemptWhoseShimLivesOutOfSightHasNotEnded) {
  common::ShimLaunch launch;
  launch.mark = NewAttemptMark(7, 2, NodeTag("cluster", "node1"));
  Write(common::kLaunchFileName, common::EncodeShimLaunch(launch));
  {
    const common::UniqueFd held(open(Path(common::kLaunchFileName).c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(flock(held.get(), LOCK_EX), 0);
    const common::KillResult result = KillAttempt(directory_, 1'000);
    EXPECT_FALSE(result.empty);
    EXPECT_NE(result.how.find("as in another container"), std::string::npos) << result.how;
  }
  EXPECT_TRUE(KillAttempt(directory_, 1'000).empty);
}

TEST(AttemptMarks, AreNewEachTimeAndTellTheNodeOfTheCluster) {
  const std::string tag = NodeTag("cluster", "node1");
  EXPECT_EQ(tag, NodeTag("cluster", "node1"));
  EXPECT_NE(tag, NodeTag("cluster", "node2"));
  EXPECT_NE(tag, NodeTag("other", "node1"));
  const std::string first = NewAttemptMark(7, 2, tag);
  EXPECT_NE(first, NewAttemptMark(7, 2, tag));
  const std::optional<AttemptMark> mark = ParseMark(first);
  ASSERT_TRUE(mark.has_value()) << first;
  EXPECT_EQ(mark->job, 7u);
  EXPECT_EQ(mark->attempt, 2u);
  EXPECT_EQ(mark->tag, tag);
}

TEST(LaunchErrors, EachStageIsOneSentenceWithItsFix) {
  common::RankLaunch rank;
  rank.rank = 3;
  rank.workdir = "/data";
  rank.program = "/bin/train";
  const auto said = [&](common::ExecStage stage, int error) {
    RankExited exit;
    exit.exec_stage = stage;
    exit.exec_errno = error;
    return DescribeLaunchError(exit, rank, "node1");
  };
  EXPECT_EQ(said(common::ExecStage::kNone, 0), "");
  EXPECT_EQ(said(common::ExecStage::kWorkdir, ENOENT),
            "node node1: cannot enter the working directory /data: No such file or directory; "
            "fix: create it on that node, or use another one with --workdir");
  EXPECT_EQ(said(common::ExecStage::kExec, EACCES),
            "node node1: cannot execute /bin/train: Permission denied; fix: correct the command, "
            "or install it on that node");
  EXPECT_EQ(said(common::ExecStage::kFork, EAGAIN),
            "node node1: cannot start a process for rank 3: Resource temporarily unavailable; fix: "
            "raise the limit of processes and memory on that node");
  EXPECT_EQ(said(common::ExecStage::kSetup, EMFILE),
            "node node1: cannot prepare the process of rank 3: Too many open files; fix: see the "
            "worker's log on that node");
}

}  // namespace
}  // namespace muster::worker
