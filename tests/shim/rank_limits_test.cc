// Limits of ranks, by the kernel's own cgroups. Skipped where none may be made.
#include <algorithm>

#include "common/files/plain_files.h"
#include "shim_fixture.h"
#include "worker/launch/leftovers.h"
#include "worker/limits/limit_host.h"
#include "worker/limits/rank_groups.h"

namespace muster::worker {
namespace {

constexpr uint64_t kMemory = 64 << 20;

class ShimRankLimits : public ShimFixture {
 protected:
  void SetUp() override {
    limits_ = PrepareLimits(KernelCgroups());
    if (limits_.memory.base.empty()) GTEST_SKIP() << "memory: " << limits_.memory.why;
    if (limits_.cpu.base.empty()) GTEST_SKIP() << "cpus: " << limits_.cpu.why;
    host_ = ProbeCgroups(limits_);
    const common::AttemptCgroups cgroups = common::MakeAttemptCgroups(host_, launch_.mark);
    launch_.cgroup_dir = cgroups.v2_dir;
    launch_.freezer_dir = cgroups.freezer_dir;
  }

  void Limit(uint32_t cpu_millis, uint64_t memory_bytes) {
    v1::RankLimits wanted;
    wanted.set_cpu_millis(cpu_millis);
    wanted.set_memory_bytes(memory_bytes);
    const absl::Status limited = LimitRanks(KernelCgroups(), limits_, wanted, &launch_);
    ASSERT_TRUE(limited.ok()) << limited;
    for (const common::RankLaunch& rank : launch_.ranks) {
      directories_.insert(directories_.end(), rank.limit_dirs.begin(), rank.limit_dirs.end());
    }
  }

  bool NoCgroupIsLeft() const {
    return std::none_of(directories_.begin(), directories_.end(), [](const std::string& each) {
      return access(each.c_str(), F_OK) == 0 ||
             access(each.substr(0, each.rfind('/')).c_str(), F_OK) == 0;
    });
  }

  LimitHost limits_;
  std::vector<std::string> directories_;
};

TEST_F(ShimRankLimits, ARankBeyondItsMemoryIsKilledAndOthersAreNot) {
  AddRank({"test_rank", "eat"});
  AddRank({"test_rank", "sleep"});
  Limit(0, kMemory);
  Spawn();
  ASSERT_TRUE(Until([this] { return exits_.count(0) > 0 && started_.count(1) > 0; }));
  EXPECT_EQ(exits_.at(0).signal, SIGKILL);
  EXPECT_TRUE(exits_.at(0).out_of_memory);
  EXPECT_TRUE(exits_.at(0).memory_limit);
  kill(started_.at(1).pid, SIGKILL);  // manually
  ASSERT_TRUE(UntilGone());
  EXPECT_FALSE(exits_.at(1).out_of_memory);
  EXPECT_FALSE(exits_.at(1).memory_limit);
  EXPECT_TRUE(NoCgroupIsLeft());
  // A worker that was away reads the same.
  const auto record = ReadExitRecord(launch_.attempt_dir);
  ASSERT_TRUE(record.ok()) << record.status();
  ASSERT_EQ(record->exits.size(), 2u);
  EXPECT_TRUE(record->exits[0].memory_limit && record->exits[0].out_of_memory);
  EXPECT_FALSE(record->exits[1].memory_limit || record->exits[1].out_of_memory);
}

TEST_F(ShimRankLimits, AFailureAfterOneOfItsProcessesWasKilledIsTheLimitsToo) {
  AddRank({"/bin/sh", "-c", SiblingBinary("test_rank") + " eat || exit 3"});
  Limit(0, kMemory);
  Spawn();
  ASSERT_TRUE(UntilGone());
  // v2 kills all of its processes together.
  EXPECT_TRUE(exits_.at(0).exit_code == 3 || exits_.at(0).signal == SIGKILL);
  EXPECT_TRUE(exits_.at(0).memory_limit);
}

TEST_F(ShimRankLimits, ARankThatEndsWellReachedNoLimit) {
  AddRank({"/bin/sh", "-c", SiblingBinary("test_rank") + " eat; true"});
  Limit(0, kMemory);
  if (limits_.memory.is_v2) GTEST_SKIP() << "v2 kills the shell, too";
  Spawn();
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(exits_.at(0).exit_code, 0);
  EXPECT_FALSE(exits_.at(0).memory_limit);
}

TEST_F(ShimRankLimits, ABusyRankIsThrottledInItsOwnCgroup) {
  AddRank({"/bin/sh", "-c", "while :; do :; done"});
  Limit(100, 0);
  Spawn();
  const std::string stat = directories_.at(0) + "/cpu.stat";
  const auto throttled = [&stat] {
    std::string text;
    common::ReadSmallFile(stat, &text);
    const size_t at = text.find("nr_throttled ");
    return at != std::string::npos && std::atoi(text.c_str() + at + 13) > 0;
  };
  EXPECT_TRUE(Until(throttled));
  shim_->Stop(0);
  ASSERT_TRUE(UntilGone());
  EXPECT_FALSE(exits_.at(0).out_of_memory);
  EXPECT_TRUE(NoCgroupIsLeft());
}

TEST_F(ShimRankLimits, ARankThatCannotEnterItsCgroupDoesNotStart) {
  AddRank({"test_rank", "sleep"});
  launch_.ranks[0].limit_dirs = {root_ + "/gone"};
  Spawn();
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(exits_.at(0).exec_stage, common::ExecStage::kLimits);
  EXPECT_EQ(started_.count(0), 0u);
}

TEST_F(ShimRankLimits, WhatAKilledShimLeftIsRemovedWithItsRanks) {
  AddRank({"test_rank", "sleep"});
  Limit(500, kMemory);
  Spawn();
  ASSERT_TRUE(Until([this] { return started_.count(0) > 0; }));
  kill(shim_->pid(), SIGKILL);
  ASSERT_TRUE(UntilGone());
  EXPECT_TRUE(KillAttempt(launch_.attempt_dir).empty);
  EXPECT_TRUE(NoCgroupIsLeft());
}

TEST_F(ShimRankLimits, EmptyCgroupsOfALostAttemptAreFoundByTheirNamesAlone) {
  AddRank({"test_rank", "sleep"});
  launch_.mark = NewAttemptMark(7, 2, NodeTag("limits", root_));
  launch_.cgroup_dir.clear();
  Limit(500, kMemory);
  const auto ended = EndMarked(
      host_, [this](const AttemptMark& mark) { return mark.text == launch_.mark; }, 1'000);
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->size(), 1u);
  EXPECT_TRUE(NoCgroupIsLeft());
}

}  // namespace
}  // namespace muster::worker
