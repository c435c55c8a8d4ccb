// Nothing of an attempt survives: escapees at the end, at a stop, and when the shim itself is
// killed, on each level of the ladder that this host supports.
#include <sys/resource.h>

#include "common/files/plain_files.h"
#include "shim_fixture.h"

namespace muster::worker {
namespace {

using common::KillLevel;

class ShimKill : public ShimFixture, public testing::WithParamInterface<KillLevel> {
 protected:
  ShimKill() : pids_(root_ + "/pids") {}
  // Skips if the host lacks the level.
  bool Usable() {
    UseCgroups(GetParam());
    return host_.level == GetParam();
  }
  void ExpectNobodyLeft(size_t count) {
    EXPECT_EQ(Pids(pids_).size(), count);
    // A process that ends leaves its cgroup a moment before the kernel calls it dead.
    const auto ends = [this](pid_t pid) { return Until([pid] { return !Alive(pid); }); };
    for (const pid_t pid : Pids(pids_)) EXPECT_TRUE(ends(pid)) << pid;
    for (const auto& [rank, started] : started_) EXPECT_TRUE(ends(started.pid)) << started.pid;
    EXPECT_FALSE(!launch_.cgroup_dir.empty() && common::Exists(launch_.cgroup_dir));
    EXPECT_FALSE(!launch_.freezer_dir.empty() && common::Exists(launch_.freezer_dir));
  }
  const std::string pids_;
};

#define NEED_LEVEL() \
  if (!Usable()) GTEST_SKIP() << "this host has only: " << common::KillLevelName(host_)

TEST_P(ShimKill, EscapedGrandchildrenEndWithTheLastRank) {
  NEED_LEVEL();
  AddRank({"test_rank", "escape", pids_});
  AddRank({"test_rank", "escape-and-sleep", pids_});
  Spawn();
  ASSERT_TRUE(Until([this] { return Pids(pids_).size() == 2 && started_.count(1) > 0; }));
  kill(started_.at(1).pid, SIGKILL);
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(how_, "empty");
  ExpectNobodyLeft(2);
}

TEST_P(ShimKill, AStopLeavesNobodyWhateverRanksAndGrandchildrenIgnore) {
  NEED_LEVEL();
  AddRank({"test_rank", "ignore-term"});
  AddRank({"test_rank", "escape-and-sleep", pids_, "clean"});
  Spawn();
  ASSERT_TRUE(Until([this] { return Pids(pids_).size() == 1 && Spool(0) == "ready\n"; }));
  shim_->Stop(50);
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(exits_.at(0).signal, SIGKILL);
  EXPECT_EQ(how_, "empty");
  ExpectNobodyLeft(1);
}

TEST_P(ShimKill, AProcessThatRunsAwayByForkingIsCaught) {
  NEED_LEVEL();
  AddRank({"test_rank", "run-away"});
  Spawn();
  ASSERT_TRUE(Until([this] { return started_.size() == 1; }));
  shim_->Stop(20);
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(how_, "empty");
}

TEST_P(ShimKill, AKilledShimTakesItsRanksAlongAndKillAttemptTheRest) {
  NEED_LEVEL();
  AddRank({"test_rank", "ignore-term"});
  AddRank({"test_rank", "escape-and-sleep", pids_});
  Spawn();
  ASSERT_TRUE(Until([this] { return Pids(pids_).size() == 1 && started_.size() == 2; }));
  kill(shim_->pid(), SIGKILL);
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(how_, "");
  EXPECT_FALSE(ShimLives(launch_.attempt_dir));
  EXPECT_EQ(ReadExitRecord(launch_.attempt_dir).status().code(), absl::StatusCode::kNotFound);
  const common::KillResult result = KillAttempt(launch_.attempt_dir);
  EXPECT_TRUE(result.empty) << result.how;
  EXPECT_EQ(result.how, "empty");
  ExpectNobodyLeft(1);
}

TEST_P(ShimKill, KillAttemptEndsAShimThatDoesNotAnswer) {
  NEED_LEVEL();
  AddRank({"test_rank", "escape-and-sleep", pids_});
  Spawn();
  const pid_t shim_pid = shim_->pid();
  ASSERT_TRUE(Until([this] { return Pids(pids_).size() == 1 && started_.size() == 1; }));
  kill(shim_pid, SIGSTOP);
  EXPECT_TRUE(KillAttempt(launch_.attempt_dir).empty);
  EXPECT_FALSE(ShimLives(launch_.attempt_dir));
  ExpectNobodyLeft(1);
}

TEST_P(ShimKill, RanksAreKilledPastASupervisorThatStandsStillAndProvesTheEndLater) {
  NEED_LEVEL();
  AddRank({"test_rank", "escape-and-sleep", pids_});
  Spawn();
  const pid_t shim_pid = shim_->pid();
  ASSERT_TRUE(Until([this] { return Pids(pids_).size() == 1 && started_.size() == 1; }));
  // Not over before it stands still, however busy this machine is.
  const int64_t fence_mono_ms = common::MonotonicMicros() / 1000 + 300;
  shim_->MoveFence(fence_mono_ms);
  kill(shim_pid, SIGSTOP);
  KillRanks(launch_.attempt_dir, launch_);
  ASSERT_TRUE(Until([this] { return !Alive(started_.at(0).pid) && !Alive(Pids(pids_)[0]); }));
  EXPECT_TRUE(ShimLives(launch_.attempt_dir));
  ASSERT_TRUE(Until([&] { return common::MonotonicMicros() / 1000 > fence_mono_ms; }));
  kill(shim_pid, SIGCONT);
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(how_, "empty");
  EXPECT_EQ(exits_.at(0).signal, SIGKILL);
  EXPECT_TRUE(exits_.at(0).stopped) << "not a rank that failed";
  ExpectNobodyLeft(1);
}

INSTANTIATE_TEST_SUITE_P(Ladder, ShimKill,
                         testing::Values(KillLevel::kCgroupV2, KillLevel::kFreezer,
                                         KillLevel::kProcessScan),
                         [](const testing::TestParamInfo<KillLevel>& info) -> std::string {
                           if (info.param == KillLevel::kCgroupV2) return "CgroupV2";
                           return info.param == KillLevel::kFreezer ? "Freezer" : "ProcessScan";
                         });

TEST_F(ShimFixture, KillAttemptOfSomethingThatNeverRanSucceeds) {
  EXPECT_TRUE(KillAttempt(root_ + "/9-9").empty);
}

TEST_F(ShimFixture, WithoutAFreeDescriptorNothingIsProvenAndNobodyIsTakenForDead) {
  AddRank({"/bin/sh", "-c", "exec sleep 1000"});
  Spawn();
  ASSERT_TRUE(Until([this] { return started_.size() == 1; }));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const common::KillResult by_mark = common::KillByMark(launch_.mark, {}, {}, 10);
  const common::KillResult attempt = KillAttempt(launch_.attempt_dir, 10);
  const bool lives = ShimLives(launch_.attempt_dir);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_FALSE(by_mark.empty) << by_mark.how;
  EXPECT_EQ(by_mark.how, "no free descriptor to inspect every process");
  EXPECT_FALSE(attempt.empty) << attempt.how;
  EXPECT_TRUE(lives);
  EXPECT_TRUE(Alive(started_.at(0).pid));
  EXPECT_TRUE(KillAttempt(launch_.attempt_dir).empty);
}

TEST_F(ShimFixture, EveryOrphanIsReapedAndNoneBecomesARankExit) {
  AddRank({"/bin/sh", "-c",
           "i=0; while [ $i -lt 300 ]; do (true &) ; i=$((i+1)); done; exec sleep 1000"});
  Spawn();
  ASSERT_TRUE(Until([this] {
    common::ProcessStat stat;
    std::string comm;
    return started_.count(0) > 0 &&
           common::ReadSmallFile("/proc/" + std::to_string(started_.at(0).pid) + "/comm", &comm) &&
           comm == "sleep\n";
  }));
  ASSERT_TRUE(Until([this] {
    int children = 0;
    for (const common::ProcessStat& process : common::ListProcesses()) {
      children += process.ppid == shim_->pid() ? 1 : 0;
    }
    return children == 1;
  }));
  EXPECT_TRUE(exits_.empty());
  shim_->Stop(1000);
  ASSERT_TRUE(UntilGone());
}

}  // namespace
}  // namespace muster::worker
