// The ring buffer of collectives, and hang detection from it.
#include "diagnosis/collective_log.h"

#include <gtest/gtest.h>

#include <thread>

#include "diagnosis/flight_record.h"

namespace muster {
namespace {

using State = CollectiveLog::State;
using std::chrono::milliseconds;

constexpr CollectiveLog::Call kSum = {"all_reduce", "float32", 1 << 20, 4 << 20, "gloo"};

TEST(CollectiveLog, CountsEachGroupForItself) {
  CollectiveLog log;
  const size_t all = log.add_group("default", {0, 1});
  const size_t side = log.add_group("side", {1, 0});
  log.end(log.begin(all, kSum), true);
  const uint64_t second = log.begin(all, kSum);
  const uint64_t other = log.begin(side, {"barrier"});
  log.end(other, false);
  const auto snapshot = log.snapshot();
  ASSERT_EQ(snapshot.entries.size(), 3u);
  EXPECT_EQ(snapshot.entries[0].state, State::finished);
  EXPECT_EQ(snapshot.entries[1].state, State::started);
  EXPECT_EQ(snapshot.entries[1].sequence, 2u);
  EXPECT_EQ(snapshot.entries[2].sequence, 1u);
  EXPECT_EQ(snapshot.entries[2].state, State::failed);
  EXPECT_EQ(snapshot.groups[all].started, 2u);
  EXPECT_EQ(snapshot.groups[all].ended, 1u);
  EXPECT_EQ(describe(snapshot.entries[1], snapshot.groups[all]),
            "all_reduce #2 (4 MiB float32, group default)");
  EXPECT_EQ(describe(snapshot.entries[2], snapshot.groups[side]), "barrier #1 (group side)");
  log.end(second, true);
}

TEST(CollectiveLog, KeepsTheNewestAndForgetsLateEndsOfLostOnes) {
  CollectiveLog log;
  const size_t group = log.add_group("default", {0});
  const uint64_t first = log.begin(group, kSum);
  for (size_t i = 0; i < CollectiveLog::kKept; ++i) log.end(log.begin(group, kSum), true);
  log.end(first, false);  // its slot has been reused
  const auto snapshot = log.snapshot();
  ASSERT_EQ(snapshot.entries.size(), CollectiveLog::kKept);
  EXPECT_EQ(snapshot.entries.front().sequence, 2u);
  EXPECT_EQ(snapshot.entries.back().sequence, CollectiveLog::kKept + 1);
  for (const auto& entry : snapshot.entries) EXPECT_EQ(entry.state, State::finished);
}

TEST(CollectiveLog, MayBeUsedByManyThreads) {
  CollectiveLog log;
  const size_t group = log.add_group("default", {0});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 5'000; ++k) log.end(log.begin(group, kSum), true);
    });
  }
  for (int k = 0; k < 50; ++k) log.snapshot();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(log.snapshot().groups[group].started, 20'000u);
  // Ignore a thread that was delayed by more than the ring's length.
  EXPECT_LE(log.snapshot().groups[group].ended, 20'000u);
  for (const auto& entry : log.snapshot().entries) EXPECT_EQ(entry.state, State::finished);
}

// A snapshot of one group at time `now_ms`, with collectives started at the given times.
CollectiveLog::Snapshot at(int64_t now_ms, const std::vector<std::pair<int64_t, State>>& begun,
                           int64_t last_ms) {
  const CollectiveLog::Clock::time_point zero{};
  CollectiveLog::Snapshot snapshot;
  snapshot.now = zero + milliseconds(now_ms);
  snapshot.last_activity = zero + milliseconds(last_ms);
  snapshot.groups = {{"default", {0, 1}, begun.size(), 0, false}};
  for (const auto& [time, state] : begun) {
    const auto begin = zero + milliseconds(time);
    snapshot.entries.push_back({0, snapshot.entries.size() + 1, kSum, state, begin, begin, 1});
  }
  return snapshot;
}

TEST(HangCheck, LooksAgainWhenTheOldestRunningCollectiveIsDue) {
  const auto check = check_for_hang(
      at(500, {{0, State::finished}, {100, State::started}, {200, State::started}}, 200),
      milliseconds(1'000));
  EXPECT_FALSE(check.sign);
  ASSERT_TRUE(check.look_again);
  EXPECT_EQ(check.look_again->time_since_epoch(), milliseconds(1'100));
}

TEST(HangCheck, TellsACollectiveThatDoesNotEndFromARankThatBeginsNone) {
  const auto running = check_for_hang(
      at(1'200, {{100, State::started}, {1'150, State::finished}}, 1'190), milliseconds(1'000));
  ASSERT_TRUE(running.sign);
  EXPECT_EQ(running.sign->since.time_since_epoch(), milliseconds(100));
  EXPECT_EQ(running.sign->reason,
            "all_reduce #1 (4 MiB float32, group default) has been running for 1.1 s");
  const auto quiet = check_for_hang(at(2'500, {{100, State::finished}}, 400), milliseconds(2'000));
  ASSERT_TRUE(quiet.sign);
  EXPECT_EQ(quiet.sign->since.time_since_epoch(), milliseconds(400));
  EXPECT_EQ(quiet.sign->reason, "no collective for 2.1 s");
}

TEST(HangCheck, SeesNothingWithoutALivingGroup) {
  auto snapshot = at(9'000, {{0, State::started}}, 0);
  snapshot.groups[0].removed = true;
  const auto check = check_for_hang(snapshot, milliseconds(1));
  EXPECT_FALSE(check.sign);
  EXPECT_FALSE(check.look_again);
  // Nor in what a destroyed group left running while another group exists.
  snapshot.groups.push_back({"other", {0, 1}, 0, 0, false});
  snapshot.last_activity += milliseconds(8'500);
  EXPECT_FALSE(check_for_hang(snapshot, milliseconds(1'000)).sign);
}

TEST(FlightRecord, TakesNcclsCollectivesFromItsOwnRecord) {
  FlightRecord record;
  record.time_ms = 5'000;
  record.library_traces["nccl"] = R"({"version":"2.10","entries":[
    {"profiling_name":"nccl:all_reduce","collective_seq_id":6,"process_group":["0","default_pg"],
     "input_sizes":[[4,8],[2]],"input_dtypes":["BFloat16"],"state":"completed","retired":true,
     "time_created_ns":1000000000,"time_discovered_completed_ns":2000000000,"is_p2p":false},
    {"profiling_name":"nccl:broadcast","collective_seq_id":7,"process_group":["0","default_pg"],
     "input_sizes":[[1048576]],"input_dtypes":["Float"],"state":"scheduled","retired":false,
     "time_created_ns":3000000000,"is_p2p":false},
    {"profiling_name":"nccl:send","is_p2p":true}, 7, {"profiling_name":3}],
    "pg_config":{"0":{"name":"0","desc":"default_pg","ranks":"[0, 1, 2]"}}})";
  record.library_traces["c10d"] = "{}";
  record.library_traces["odd"] = "no json";
  const std::string line = compact_json(record);
  EXPECT_NE(
      line.find(R"({"age_ms":4000,"bytes":68,"carrier":"nccl","dtype":"bfloat16","elements":34,)"
                R"("ended_ms_ago":3000,"group":"nccl 0","operation":"all_reduce",)"
                R"("ranks":[0,1,2],"sequence":6,"state":"finished"})"),
      std::string::npos)
      << line;
  EXPECT_NE(line.find(R"("operation":"broadcast","ranks":[0,1,2],"sequence":7,"state":"started"})"),
            std::string::npos)
      << line;
  EXPECT_NE(line.find(R"("groups":[{"name":"nccl 0","ranks":[0,1,2],"started":7}])"),
            std::string::npos)
      << line;
}

TEST(FlightRecord, StaysBelowTheLinesLimitAndKeepsWhatStillRuns) {
  FlightRecord record;
  record.rank = 3;
  record.pid = 10;
  record.collectives = at(1'000, {}, 0);
  for (int i = 0; i < 900; ++i) {
    record.collectives.entries.push_back({0,
                                          static_cast<uint64_t>(i + 1),
                                          kSum,
                                          i == 1 ? State::started : State::finished,
                                          {},
                                          {},
                                          12});
  }
  for (int i = 10; i < 400; ++i) {
    ThreadStack& thread = record.threads.emplace_back();
    thread.id = i;
    thread.frames.assign(30, {1, std::string(200, 'f'), "module\xff", 16});
  }
  const std::string line = compact_json(record);
  EXPECT_LE(line.size(), 64u << 10);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_NE(line.find("\"sequence\":2,"), std::string::npos);    // running
  EXPECT_EQ(line.find("\"sequence\":3,"), std::string::npos);    // finished long ago
  EXPECT_NE(line.find("\"sequence\":900,"), std::string::npos);  // newest
  EXPECT_NE(line.find("\"id\":12,"), std::string::npos);         // the training thread comes first
  EXPECT_EQ(record.threads[training_thread(record)].id, 12);
  record.collectives.entries.clear();
  EXPECT_EQ(record.threads[training_thread(record)].id, 10);  // the main thread
}

}  // namespace
}  // namespace muster
