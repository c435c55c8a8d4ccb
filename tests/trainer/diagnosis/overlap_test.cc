// Hand-made intervals: the overlap of communication and compute, self times, and the texts.
#include <gtest/gtest.h>

#include <sstream>

#include "muster/profiling/profiler.h"
#include "profiling/summary.h"

namespace muster {
namespace {

using Kind = ProfiledEvent::Kind;

TEST(Overlap, IsCountedOnceWhateverOverlaps) {
  // Communication 0-10 and 20-30 (in three pieces), compute 5-8, 6-12, 25-40: 3..8→ 5-10 and 25-30.
  const Overlap overlap = overlap_of({{20, 26}, {0, 10}, {24, 30}}, {{6, 12}, {5, 8}, {25, 40}});
  EXPECT_DOUBLE_EQ(overlap.communication, 20e-9);
  EXPECT_DOUBLE_EQ(overlap.compute, 22e-9);
  EXPECT_DOUBLE_EQ(overlap.overlapped, 10e-9);
  EXPECT_DOUBLE_EQ(overlap.fraction(), 0.5);
  EXPECT_DOUBLE_EQ(overlap_of({}, {{0, 5}}).fraction(), 1);
  EXPECT_DOUBLE_EQ(overlap_of({{0, 5}}, {{5, 9}}).overlapped, 0);  // adjacent, not overlapping
  EXPECT_DOUBLE_EQ(overlap_of({{7, 7}, {9, 3}}, {}).communication, 0);
}

TEST(Intervals, LeaveHoles) {
  const auto rest = without_intervals({{0, 10}, {8, 20}, {30, 40}}, {{2, 4}, {3, 6}, {18, 35}});
  ASSERT_EQ(rest.size(), 3u);
  EXPECT_EQ(rest[0].begin, 0);
  EXPECT_EQ(rest[0].end, 2);
  EXPECT_EQ(rest[1].begin, 6);
  EXPECT_EQ(rest[1].end, 18);
  EXPECT_EQ(rest[2].begin, 35);
  EXPECT_EQ(rest[2].end, 40);
}

// A backward pass on thread 1, in which a small all-reduce runs in the operator's own thread, while
// Gloo's thread 2 carries a large one. Times in microseconds.
std::vector<ProfiledEvent> backward() {
  const auto us = [](int64_t time) { return time * 1'000; };
  return {
      {"ProfilerStep#3", us(0), us(100), 1, true, Kind::annotation},
      {"aten::mm", us(0), us(20), 1, true, Kind::operation},
      {"Backward", us(20), us(60), 1, true, Kind::operation},
      {"aten::mm", us(22), us(32), 1, true, Kind::operation},
      {"c10d::allreduce_", us(40), us(50), 1, true, Kind::operation},
      {"shared_memory:all_reduce", us(42), us(48), 1, true, Kind::annotation},
      {"wait:all_reduce", us(60), us(80), 1, true, Kind::annotation},
      {"gloo:all_reduce", us(30), us(80), 2, false, Kind::annotation},
  };
}

TEST(Summary, OfAStepWorkedOutByHand) {
  ProfileSummary summary;
  summarize(backward(), 10, summary);
  // Compute: 0-40 and 50-60. Communication: 30-80. Both: 30-40 and 50-60.
  EXPECT_DOUBLE_EQ(summary.overlap.communication, 50e-6);
  EXPECT_DOUBLE_EQ(summary.overlap.compute, 50e-6);
  EXPECT_DOUBLE_EQ(summary.overlap.overlapped, 20e-6);
  ASSERT_EQ(summary.operators.size(), 4u);  // excludes the step annotation
  EXPECT_EQ(summary.operators[0].name, "aten::mm");
  EXPECT_EQ(summary.operators[0].calls, 2);
  EXPECT_NEAR(summary.operators[0].self_seconds, 30e-6, 1e-12);
  EXPECT_EQ(summary.operators[1].name, "Backward");
  EXPECT_NEAR(summary.operators[1].self_seconds, 20e-6, 1e-12);  // 40 - 10 - 10
  EXPECT_NEAR(summary.operators[1].total_seconds, 40e-6, 1e-12);
  ASSERT_EQ(summary.communication.size(), 2u);
  EXPECT_EQ(summary.communication[0].name, "gloo:all_reduce");
}

TEST(Summary, OfADeviceCountsItsKernelsOnly) {
  std::vector<ProfiledEvent> events = backward();
  events.push_back({"ncclDevKernel_AllReduce_Sum_f32", 0, 4'000, 20, true, Kind::kernel});
  events.push_back({"sgemm", 1'000, 2'000, 7, true, Kind::kernel});
  events.push_back({"Memcpy HtoD", 2'000, 9'000, 7, true, Kind::kernel});
  ProfileSummary summary;
  summarize(events, 10, summary);
  EXPECT_DOUBLE_EQ(summary.overlap.communication, 4e-6);
  EXPECT_DOUBLE_EQ(summary.overlap.compute, 1e-6);
  EXPECT_DOUBLE_EQ(summary.overlap.overlapped, 1e-6);
}

TEST(Summary, IsAtMost80ColumnsWide) {
  ProfileSummary summary;
  std::vector<ProfiledEvent> events = backward();
  events.push_back({std::string(300, 'x'), 0, 99'000'000'000'000, 3, true, Kind::operation});
  summarize(events, 3, summary);
  EXPECT_EQ(summary.operators.size(), 3u);
  summary.world_size = 100'000;
  std::istringstream lines(summary.text());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_NE(summary.text().find("both at once"), std::string::npos);
}

}  // namespace
}  // namespace muster
