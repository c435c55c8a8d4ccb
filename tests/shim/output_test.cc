// The bytes of the ranks: exact, indexed, bounded by the quota, unaffected by a worker that comes
// and goes.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>

#include "common/files/plain_files.h"
#include "shim_fixture.h"

namespace muster::worker {
namespace {

using common::SpoolRecord;
using common::Stream;

constexpr uint64_t kLineBytes = 100;

std::string Line(uint64_t number) {
  char line[101];
  std::snprintf(line, sizeof line, "%-99llu\n", static_cast<unsigned long long>(number));
  return line;
}

// Consecutive records, with no gaps except the dropped bytes that they name.
uint64_t CheckIndex(const std::vector<SpoolRecord>& records, uint64_t* dropped) {
  uint64_t at = 0;
  int64_t time_us = 0;
  *dropped = 0;
  for (const SpoolRecord& record : records) {
    EXPECT_EQ(record.offset, at + record.dropped);
    EXPECT_GE(record.time_us, time_us);
    at = record.offset + record.length;
    time_us = record.time_us;
    *dropped += record.dropped;
  }
  return at;
}

class ShimOutput : public ShimFixture {
 protected:
  static uint64_t ResidentPages(pid_t pid) {
    std::string text;
    unsigned long long size = 0, resident = 0;
    common::ReadSmallFile("/proc/" + std::to_string(pid) + "/statm", &text);
    std::sscanf(text.c_str(), "%llu %llu", &size, &resident);
    return resident;
  }

  void HoldAndTake();

  uint64_t DiskBytes(uint32_t rank) const {
    struct stat info {};
    stat(common::SpoolPath(launch_.spool_dir, rank, Stream::kStdout).c_str(), &info);
    return static_cast<uint64_t>(info.st_blocks) * 512;
  }
};

TEST_F(ShimOutput, AnyBytesOfBothStreamsArriveExactly) {
  AddRank({"test_rank", "binary", "1", "2000"});
  AddRank({"test_rank", "binary", "2", "2000"});
  Spawn();
  ASSERT_TRUE(UntilGone());
  std::string all;
  for (int i = 0; i < 256 * 2000; ++i) all.push_back(static_cast<char>(i % 256));
  EXPECT_EQ(Spool(0, Stream::kStdout), all);
  EXPECT_EQ(Spool(0, Stream::kStderr), "");
  EXPECT_EQ(Spool(1, Stream::kStdout), "");
  EXPECT_EQ(Spool(1, Stream::kStderr), all);
  uint64_t dropped = 0;
  EXPECT_EQ(CheckIndex(Index(0), &dropped), all.size());
  EXPECT_EQ(dropped, 0u);
  EXPECT_EQ((closed_.at({0, Stream::kStdout}).end), all.size());
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kShimBytesMax = 64u << 20;  // with the sanitizer's own memory
#else
constexpr uint64_t kShimBytesMax = 8u << 20;
#endif

TEST_F(ShimOutput, AFloodOfShortLinesIsExactAndItsIndexStaysSmall) {
  constexpr uint64_t kLines = 300'000;
  AddRank({"test_rank", "lines", std::to_string(kLines)});
  AddRank({"test_rank", "lines", std::to_string(kLines)});
  Spawn();
  uint64_t pages = 0;
  ASSERT_TRUE(Until([this, &pages] {
    pages = std::max(pages, ResidentPages(shim_->pid()));
    return shim_->gone();
  }));
  EXPECT_GT(pages, 0u);
  EXPECT_LT(pages * 4096, kShimBytesMax);  // no byte passes through its memory
  std::string all;
  for (uint64_t i = 0; i < kLines; ++i) all += Line(i);
  EXPECT_TRUE(Spool(0) == all);
  EXPECT_TRUE(Spool(1) == all);
  uint64_t dropped = 0;
  EXPECT_EQ(CheckIndex(Index(0), &dropped), all.size());
  EXPECT_LT(Index(0).size() * sizeof(SpoolRecord), all.size() / 100);
}

TEST_F(ShimOutput, AFullSpoolDropsCountsAndMarks) {
  launch_.spool_quota_bytes = 1'000'000;
  launch_.spool_patience_ms = 0;
  AddRank({"test_rank", "lines", "50000"});
  Spawn();
  ASSERT_TRUE(UntilGone());
  const StreamClosed end = closed_.at({0, Stream::kStdout});
  EXPECT_EQ(end.end, 50'000 * kLineBytes);
  EXPECT_EQ(end.dropped, 4'000'000u);
  uint64_t dropped = 0;
  EXPECT_EQ(CheckIndex(Index(0), &dropped), end.end);
  EXPECT_EQ(dropped, end.dropped);
  EXPECT_EQ(Index(0).back().length, 0u);
  std::string kept;
  for (uint64_t i = 0; i < 10'000; ++i) kept += Line(i);
  EXPECT_TRUE(Spool(0) == kept);
  const auto record = ReadExitRecord(launch_.attempt_dir);
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->streams[0].dropped, 4'000'000u);
}

TEST_F(ShimOutput, AfterATrimTheMarkAppearsWithoutAnyFurtherOutput) {
  launch_.spool_quota_bytes = 100'000;
  launch_.spool_patience_ms = 0;
  // Twice the capacity of a pipe: when the writer is done, some of it must have been dropped.
  AddRank({"/bin/sh", "-c",
           SiblingBinary("test_rank") + " lines 20000; touch " + root_ + "/done; exec sleep 1000"});
  Spawn();
  ASSERT_TRUE(Until([this] { return common::Exists(root_ + "/done"); }));
  EXPECT_EQ(Spool(0).size(), 100'000u);
  shim_->Trim(0, Stream::kStdout, 100'000, 0);
  // Not always the last record: what was still in the pipe is kept once there is room.
  ASSERT_TRUE(Until([this] {
    const std::vector<SpoolRecord> records = Index(0);
    return std::any_of(records.begin(), records.end(),
                       [](const SpoolRecord& record) { return record.dropped > 0; });
  }));
  shim_->Stop(0);
  ASSERT_TRUE(UntilGone());
  uint64_t dropped = 0;
  EXPECT_EQ(CheckIndex(Index(0), &dropped), 20'000 * kLineBytes);
  EXPECT_EQ(dropped, closed_.at({0, Stream::kStdout}).dropped);
}

// A burst that is being drained is not a flood: the default policy also blocks the rank.
TEST_F(ShimOutput, ABurstIntoASpoolThatIsTakenLosesNothing) {
  launch_.spool_quota_bytes = 200'000;
  HoldAndTake();
}

TEST_F(ShimOutput, WhatNobodyTakesForTheWholePatienceIsDropped) {
  launch_.spool_quota_bytes = 200'000;
  launch_.spool_patience_ms = 300;
  AddRank({"test_rank", "lines", "40000"});
  Spawn();
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(exits_.at(0).exit_code, 0);
  const StreamClosed end = closed_.at({0, Stream::kStdout});
  EXPECT_EQ(end.end, 40'000 * kLineBytes);
  EXPECT_EQ(end.dropped, end.end - 200'000);
}

// The worker that takes the output was frozen, too.
TEST_F(ShimOutput, TheTimeInWhichTheNodeStoodStillDoesNotUseUpThePatience) {
  launch_.spool_quota_bytes = 200'000;
  launch_.spool_patience_ms = 1'500;
  AddRank({"test_rank", "lines", "40000"});  // more than the pipe holds: it waits
  Spawn();
  ASSERT_TRUE(Until([this] { return Spool(0).size() == 200'000; }));
  const pid_t shim_pid = shim_->pid();
  const auto pass = [this](int64_t ms) {
    return Until([end_us = common::MonotonicMicros() + ms * 1'000] {
      return common::MonotonicMicros() >= end_us;
    });
  };
  kill(shim_pid, SIGSTOP);
  ASSERT_TRUE(pass(1'600));
  kill(shim_pid, SIGCONT);
  ASSERT_TRUE(pass(100));  // it acts before anything is taken
  shim_->Trim(0, Stream::kStdout, 200'000, 0);
  ASSERT_TRUE(Until([this] { return Spool(0).size() == 400'000; }));
  shim_->Trim(0, Stream::kStdout, 400'000, 0);
  shim_->Stop(0);
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ((closed_.at({0, Stream::kStdout}).dropped), 0u);
}

TEST_F(ShimOutput, WithBlockAFullSpoolHoldsTheRankAndLosesNothing) {
  launch_.spool_quota_bytes = 200'000;
  launch_.spool_patience_ms = 0;
  launch_.block_when_full = true;
  HoldAndTake();
}

// Reads everything that a rank writes, from a spool that holds only part of it.
void ShimOutput::HoldAndTake() {
  constexpr uint64_t kLines = 40'000;
  AddRank({"test_rank", "lines", std::to_string(kLines)});
  Spawn();
  ASSERT_TRUE(Until([this] { return Spool(0).size() == 200'000; }));
  EXPECT_EQ(exits_.size(), 0u);
  std::string all, got;
  for (uint64_t i = 0; i < kLines; ++i) all += Line(i);
  ASSERT_TRUE(Until([this, &got] {
    const std::string now = Spool(0);
    got += now.substr(got.size());
    shim_->Trim(0, Stream::kStdout, got.size(), 0);
    return shim_->gone();
  }));
  got += Spool(0).substr(got.size());
  EXPECT_TRUE(got == all);
  EXPECT_EQ((closed_.at({0, Stream::kStdout}).dropped), 0u);
}

TEST_F(ShimOutput, ABlockedRankCanBeStoppedAndItsPipeIsKept) {
  launch_.spool_quota_bytes = 50'000;
  launch_.spool_patience_ms = 0;
  launch_.block_when_full = true;
  AddRank({"test_rank", "lines", "1000000"});
  Spawn();
  ASSERT_TRUE(Until([this] { return Spool(0).size() == 50'000; }));
  shim_->Stop(5'000);
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(exits_.at(0).signal, SIGTERM);
  const uint64_t end = closed_.at({0, Stream::kStdout}).end;
  EXPECT_EQ(Spool(0).size(), end);
  EXPECT_GT(end, 50'000u);
  EXPECT_EQ((closed_.at({0, Stream::kStdout}).dropped), 0u);
}

TEST_F(ShimOutput, ATrimGivesTheDiskItsBlocksBack) {
  AddRank({"test_rank", "lines-then-sleep", "80000"});
  Spawn();
  ASSERT_TRUE(Until([this] { return Spool(0).size() == 8'000'000; }));
  const uint64_t before = DiskBytes(0);
  shim_->Trim(0, Stream::kStdout, 7'000'000, 0);
  ASSERT_TRUE(Until([this, before] { return DiskBytes(0) + 6'000'000 < before; }));
  EXPECT_EQ(Spool(0).substr(7'000'000), [] {
    std::string rest;
    for (uint64_t i = 70'000; i < 80'000; ++i) rest += Line(i);
    return rest;
  }());
  shim_->Stop(0);
  ASSERT_TRUE(UntilGone());
}

TEST_F(ShimOutput, APipeThatAStrangerHoldsDelaysTheEndOnlyForAMoment) {
  AddRank({"test_rank", "ignore-term"});
  Spawn();
  ASSERT_TRUE(Until([this] { return Spool(0) == "ready\n" && started_.count(0) > 0; }));
  const std::string path = "/proc/" + std::to_string(started_.at(0).pid) + "/fd/1";
  const common::UniqueFd stranger(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(stranger.valid());
  shim_->Stop(0);
  ASSERT_TRUE(UntilGone());
  EXPECT_EQ(how_, "empty");
  EXPECT_EQ((closed_.at({0, Stream::kStdout}).end), 6u);
}

TEST_F(ShimOutput, SixtyFourRanksKeepTheirOutputApart) {
  for (int i = 0; i < 64; ++i) AddRank({"/bin/echo", "I am", std::to_string(i)});
  Spawn();
  ASSERT_TRUE(UntilGone());
  // A shim does not wait for a worker that reads too slowly: the record has what that one misses.
  const auto record = ReadExitRecord(launch_.attempt_dir);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->exits.size(), 64u);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(Spool(i), "I am " + std::to_string(i) + "\n");
}

TEST_F(ShimOutput, GrowthIsToldOnceUntilItWasSeen) {
  AddRank({"test_rank", "lines", "100000"});
  Spawn();
  // A worker that never answers: one notification, however much is written.
  int reports = 0;
  while (!shim_->gone()) {
    pollfd entry{shim_->fd(), POLLIN, 0};
    ASSERT_GT(poll(&entry, 1, 10'000), 0);
    auto events = shim_->Read();
    ASSERT_TRUE(events.ok());
    for (const ShimEvent& event : *events) reports += std::holds_alternative<SpoolGrew>(event);
  }
  EXPECT_EQ(reports, 1);
}

TEST_F(ShimOutput, WorkersThatComeAndGoInAFloodLoseNothing) {
  constexpr uint64_t kLines = 300'000;
  AddRank({"test_rank", "lines", std::to_string(kLines)});
  Spawn();
  const pid_t shim_pid = shim_->pid();
  for (int i = 1; i <= 5; ++i) {
    ASSERT_TRUE(Until([this, i] { return Index(0).size() > static_cast<size_t>(3 * i); }));
    shim_.reset();
    auto adopted = ShimClient::Adopt(launch_.attempt_dir);
    if (!adopted.ok()) break;  // it exited first
    shim_ = *std::move(adopted);
  }
  ASSERT_TRUE(Until([this] { return !ShimLives(launch_.attempt_dir); }));
  waitpid(shim_pid, nullptr, 0);
  std::string all;
  for (uint64_t i = 0; i < kLines; ++i) all += Line(i);
  EXPECT_TRUE(Spool(0) == all);
  const auto record = ReadExitRecord(launch_.attempt_dir);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->streams[0].end, all.size());
}

}  // namespace
}  // namespace muster::worker
