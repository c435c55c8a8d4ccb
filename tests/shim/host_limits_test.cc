// What happens when the host runs out of memory or disk. Skipped without root.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/files/plain_files.h"
#include "shim_fixture.h"

namespace muster::worker {
namespace {

using common::Stream;

class ShimHostLimits : public ShimFixture {
 protected:
  // A file system of one MiB for the spool, visible only to this process and its children.
  bool MountSmallSpool() {
    return unshare(CLONE_NEWNS) == 0 &&
           mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount("tmpfs", launch_.spool_dir.c_str(), "tmpfs", 0, "size=1m") == 0;
  }
  void TearDown() override { umount2(launch_.spool_dir.c_str(), MNT_DETACH); }
};

// This process's own cgroup in the v1 memory hierarchy, or empty.
std::string MemoryCgroup() {
  const std::string text = common::ReadFile("/proc/self/cgroup").value_or("");
  const size_t at = text.find(":memory:");
  if (at == std::string::npos) return {};
  const size_t begin = at + std::string(":memory:").size();
  return "/sys/fs/cgroup/memory" + text.substr(begin, text.find('\n', begin) - begin);
}

TEST_F(ShimHostLimits, ARankThatTheKernelKilledForMemoryIsSaidToBe) {
  const std::string own = MemoryCgroup();
  const std::string small = own + "/muster-test-" + std::to_string(getpid());
  if (own.empty() || mkdir(small.c_str(), 0755) != 0) GTEST_SKIP() << "no writable memory cgroup";
  const std::string self = std::to_string(getpid());
  ASSERT_TRUE(common::WriteControlFile(small + "/memory.limit_in_bytes", "100000000"));
  AddRank({"test_rank", "eat"});
  AddRank({"test_rank", "sleep"});
  // Children start in their parent's cgroup.
  ASSERT_TRUE(common::WriteControlFile(small + "/cgroup.procs", self));
  Spawn();
  ASSERT_TRUE(common::WriteControlFile(own + "/cgroup.procs", self));
  ASSERT_TRUE(Until([this] { return exits_.count(0) > 0 && started_.count(1) > 0; }));
  EXPECT_EQ(exits_.at(0).signal, SIGKILL);
  EXPECT_TRUE(exits_.at(0).out_of_memory);
  kill(started_.at(1).pid, SIGKILL);  // manually: not out of memory
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(exits_.at(1).signal, SIGKILL);
  EXPECT_FALSE(exits_.at(1).out_of_memory);
  EXPECT_EQ(rmdir(small.c_str()), 0);
}

TEST_F(ShimHostLimits, AFullDiskDropsAndCountsLikeAFullQuota) {
  if (!MountSmallSpool()) GTEST_SKIP() << "cannot mount a small file system";
  launch_.spool_patience_ms = 0;
  AddRank({"test_rank", "lines", "50000"});
  Spawn();
  ASSERT_TRUE(UntilGone());
  const StreamClosed end = closed_.at({0, Stream::kStdout});
  EXPECT_EQ(exits_.at(0).exit_code, 0);
  EXPECT_EQ(end.end, 5'000'000u);
  EXPECT_GT(end.dropped, 3'900'000u);
  EXPECT_LT(end.dropped, 5'000'000u);
  const auto record = ReadExitRecord(launch_.attempt_dir);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->streams[0].dropped, end.dropped);
}

TEST_F(ShimHostLimits, WithBlockAFullDiskHoldsTheRankUntilThereIsRoom) {
  if (!MountSmallSpool()) GTEST_SKIP() << "cannot mount a small file system";
  launch_.block_when_full = true;
  const std::string ballast = launch_.spool_dir + "/ballast";
  ASSERT_TRUE(common::WriteFileDurably(ballast, std::string(700'000, 'x')).ok());
  AddRank({"test_rank", "lines", "8000"});
  Spawn();
  ASSERT_TRUE(Until([this] { return Spool(0).size() > 200'000; }));
  ASSERT_EQ(unlink(ballast.c_str()), 0);
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ((closed_.at({0, Stream::kStdout}).dropped), 0u);
  std::string all;
  for (int i = 0; i < 8000; ++i) {
    char line[101];
    std::snprintf(line, sizeof line, "%-99d\n", i);
    all += line;
  }
  EXPECT_TRUE(Spool(0) == all);
}

}  // namespace
}  // namespace muster::worker
