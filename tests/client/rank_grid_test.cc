// The grid of `jobctl top`.
#include "client/text/rank_grid.h"

#include <gtest/gtest.h>

#include "absl/strings/str_split.h"

namespace muster::client {
namespace {

// Two ranks on each of two nodes, with a device each.
v1::JobRecord Job() {
  v1::JobRecord record;
  v1::Attempt& attempt = *record.add_attempts();
  attempt.set_number(3);
  for (uint32_t node = 0; node < 2; ++node) {
    v1::NodePart& part = *attempt.add_parts();
    part.set_node(node == 0 ? "node1" : "gpu-node-2");
    part.set_first_rank(2 * node);
    part.set_local_world_size(2);
    part.set_device_kind("gpu");
    part.add_device_indexes(4);
    part.add_device_indexes(7);
  }
  return record;
}

v1::SampleBucket Bucket(const std::string& node, uint32_t first_rank) {
  v1::SampleBucket bucket;
  bucket.mutable_last()->set_attempt(3);
  bucket.mutable_last()->set_node(node);
  for (uint32_t i = 0; i < 2; ++i) {
    v1::RankSample& rank = *bucket.mutable_last()->add_ranks();
    rank.set_rank(first_rank + i);
    rank.set_cpu_cores(static_cast<float>(first_rank + i) + 0.5f);
    rank.set_resident_bytes(3'400'000'000);
    rank.set_threads(48);
    rank.set_read_bytes_per_s(120'000'000);
    rank.set_written_bytes_per_s(999);
    rank.set_step(1'200);
    rank.set_step_ms(410);
    v1::DeviceSample& device = *bucket.mutable_last()->add_devices();
    device.set_device(i == 0 ? "gpu:4" : "gpu:7");
    device.set_utilization(i == 0 ? 0.97f : 0.5f);
    device.set_memory_used_bytes(71'000'000'000);
    device.set_power_watts(648.2f);
    device.set_temperature_celsius(71);
  }
  return bucket;
}

TEST(RankGridTest, ARankStandsBesideItsDevice) {
  const auto rows = RankRows(Job(), {Bucket("gpu-node-2", 2), Bucket("node1", 0)});
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[1].rank, 1u);
  EXPECT_EQ(rows[1].node, "node1");
  EXPECT_EQ(rows[1].device.names, "gpu:7");
  EXPECT_FLOAT_EQ(static_cast<float>(*rows[1].device.utilization), 0.5f);
  EXPECT_EQ(rows[2].device.names, "gpu:4");
}

TEST(RankGridTest, ARankWithoutSamplesAndThoseOfOlderAttemptsAreEmpty) {
  v1::SampleBucket old = Bucket("node1", 0);
  old.mutable_last()->set_attempt(2);
  const auto rows = RankRows(Job(), {old, Bucket("gpu-node-2", 2)});
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_FALSE(rows[0].sample.has_value());
  EXPECT_TRUE(rows[3].sample.has_value());
  EXPECT_TRUE(RankRows(v1::JobRecord(), {}).empty());
}

TEST(RankGridTest, SeveralDevicesOfARankAreShownAsOne) {
  v1::JobRecord job = Job();
  job.mutable_attempts(0)->mutable_parts(0)->set_local_world_size(1);
  v1::SampleBucket bucket = Bucket("node1", 0);
  const auto rows = RankRows(job, {bucket});
  EXPECT_EQ(rows[0].device.names, "gpu:4,7");
  EXPECT_NEAR(*rows[0].device.utilization, 0.735, 1e-6);
  EXPECT_EQ(*rows[0].device.memory_used, 142'000'000'000u);
  EXPECT_FLOAT_EQ(static_cast<float>(*rows[0].device.temperature), 71);
}

std::vector<uint32_t> Slowest(const std::vector<RankRow>& rows) {
  std::vector<uint32_t> slowest;
  for (const RankRow& row : rows) {
    if (row.is_slowest) slowest.push_back(row.rank);
  }
  return slowest;
}

TEST(RankGridTest, TheSlowestIsMarkedOnlyIfItIsSlower) {
  v1::SampleBucket bucket = Bucket("node1", 0);
  EXPECT_TRUE(Slowest(RankRows(Job(), {bucket, Bucket("gpu-node-2", 2)})).empty());
  bucket.mutable_last()->mutable_ranks(1)->set_step_ms(600);
  EXPECT_EQ(Slowest(RankRows(Job(), {bucket, Bucket("gpu-node-2", 2)})), std::vector<uint32_t>{1});
  v1::SampleBucket behind = Bucket("node1", 0);
  behind.mutable_last()->mutable_ranks(0)->set_step(1'199);
  EXPECT_TRUE(Slowest(RankRows(Job(), {behind})).empty()) << "told a moment earlier";
  behind.mutable_last()->mutable_ranks(0)->set_step(1'100);
  EXPECT_EQ(Slowest(RankRows(Job(), {behind})), std::vector<uint32_t>{0});
}

TEST(RankGridTest, OrdersPutTheMostStrikingFirst) {
  auto rows = RankRows(Job(), {Bucket("node1", 0), Bucket("gpu-node-2", 2)});
  SortRows(GridOrder::kCpu, &rows);
  EXPECT_EQ(rows[0].rank, 3u);
  rows[2].sample->set_step_ms(9'000);
  const uint32_t slow = rows[2].rank;
  SortRows(GridOrder::kStep, &rows);
  EXPECT_EQ(rows[0].rank, slow);
  SortRows(GridOrder::kRank, &rows);
  EXPECT_EQ(rows[0].rank, 0u);
}

TEST(RankGridTest, EightyColumnsAreEnough) {
  auto rows = RankRows(Job(), {Bucket("node1", 0), Bucket("gpu-node-2", 2)});
  rows[0].is_slowest = true;
  const Terminal terminal{.out_is_tty = true, .width = 80, .height = 24};
  const std::string text = *GridText(RankListing(rows), terminal);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    EXPECT_LE(DisplayWidth(std::string(line)), 80u) << line;
  }
  for (const char* kept : {"RANK", "CPU%", "RSS", "UTIL", "MEM", "STEP-MS", "SLOW"}) {
    EXPECT_NE(text.find(kept), std::string::npos) << kept << "\n" << text;
  }
  const Terminal wide{.out_is_tty = true, .width = 200, .height = 24};
  EXPECT_NE(GridText(RankListing(rows), wide)->find("THR"), std::string::npos);
}

TEST(RankGridTest, NodesSumWhatTheirJobsUse) {
  v1::ListNodesResponse nodes;
  nodes.add_nodes()->mutable_record()->mutable_facts()->set_name("node1");
  nodes.add_nodes()->mutable_record()->mutable_facts()->set_name("idle");
  const Listing listing = NodeListing(nodes, {Bucket("node1", 0), Bucket("node1", 2)});
  ASSERT_EQ(listing.rows.size(), 2u);
  EXPECT_EQ(listing.rows[0][4].text, "800");  // 0.5 + 1.5 + 2.5 + 3.5 cores
  EXPECT_EQ(listing.rows[0][10].text, "2593W");
  EXPECT_EQ(listing.rows[1][4].text, "");
}

}  // namespace
}  // namespace muster::client
