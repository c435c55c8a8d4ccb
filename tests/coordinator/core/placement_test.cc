// Properties of placement over many random shapes and clusters.
#include "coordinator/core/scheduling/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <string_view>

namespace muster::coordinator {
namespace {

struct Case {
  v1::Shape shape;
  std::vector<Capacity> capacities;
};

Case DrawCase(std::mt19937& random) {
  const auto draw = [&](uint32_t low, uint32_t high) {
    return std::uniform_int_distribution<uint32_t>(low, high)(random);
  };
  Case drawn;
  drawn.shape.mutable_device()->set_count_per_rank(draw(1, 2));
  if (draw(0, 1) == 0) {
    drawn.shape.set_processes(draw(1, 12));
  } else {
    drawn.shape.set_per_node(draw(1, 4));
  }
  if (draw(0, 1) == 0) {
    drawn.shape.set_min_nodes(draw(1, 4));
    drawn.shape.set_max_nodes(drawn.shape.min_nodes() + draw(0, 2));
  }
  const uint32_t nodes = draw(0, 5);
  for (uint32_t i = 0; i < nodes; ++i) {
    static constexpr std::string_view kNames = "abcde";
    Capacity capacity{.node = kNames.substr(i, 1)};
    const uint32_t devices = draw(0, 8);
    for (uint32_t device = 0; device < devices; ++device) capacity.free.push_back(device);
    capacity.ranks = devices / drawn.shape.device().count_per_rank();
    drawn.capacities.push_back(capacity);
  }
  std::stable_sort(drawn.capacities.begin(), drawn.capacities.end(),
                   [](const Capacity& a, const Capacity& b) { return a.ranks > b.ranks; });
  return drawn;
}

// Whether any assignment exists, by counting.
bool Exists(const Case& drawn) {
  std::vector<uint32_t> room;
  for (const Capacity& capacity : drawn.capacities) room.push_back(capacity.ranks);
  std::sort(room.rbegin(), room.rend());
  const v1::Shape& shape = drawn.shape;
  if (shape.per_node() > 0) {
    const auto fit = std::count_if(room.begin(), room.end(),
                                   [&](uint32_t ranks) { return ranks >= shape.per_node(); });
    return fit >= std::max<int64_t>(shape.min_nodes(), 1);
  }
  const uint32_t least = std::max<uint32_t>(shape.min_nodes(), 1);
  const uint32_t most =
      shape.min_nodes() == 0 ? 1000 : std::max(shape.max_nodes(), shape.min_nodes());
  uint32_t sum = 0;
  for (uint32_t count = 1; count <= room.size(); ++count) {
    if (room[count - 1] == 0) break;
    sum += room[count - 1];
    if (count >= least && count <= most && sum >= shape.processes() && shape.processes() >= count)
      return true;
  }
  return false;
}

void ExpectSound(const Case& drawn, const std::vector<Share>& shares) {
  const v1::Shape& shape = drawn.shape;
  uint32_t total = 0;
  std::set<std::string> nodes;
  for (const Share& share : shares) {
    EXPECT_TRUE(nodes.insert(share.node).second) << "a node twice";
    EXPECT_GT(share.ranks, 0u);
    total += share.ranks;
    EXPECT_EQ(share.devices.size(), share.ranks * shape.device().count_per_rank());
    const std::set<uint32_t> devices(share.devices.begin(), share.devices.end());
    EXPECT_EQ(devices.size(), share.devices.size()) << "a device twice";
    const auto capacity = std::find_if(drawn.capacities.begin(), drawn.capacities.end(),
                                       [&](const Capacity& c) { return c.node == share.node; });
    ASSERT_NE(capacity, drawn.capacities.end());
    EXPECT_LE(share.ranks, capacity->ranks);
    if (shape.per_node() > 0) {
      EXPECT_EQ(share.ranks, shape.per_node());
    }
  }
  if (shape.per_node() == 0) {
    EXPECT_EQ(total, shape.processes());
  }
  if (shape.min_nodes() > 0) {
    EXPECT_GE(shares.size(), shape.min_nodes());
    EXPECT_LE(shares.size(), std::max(shape.max_nodes(), shape.min_nodes()));
  }
}

TEST(Placement, IsSoundAndFindsAPlaceExactlyWhenThereIsOne) {
  std::mt19937 random(7);
  int placed = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Case drawn = DrawCase(random);
    const auto shares = Place(drawn.shape, drawn.capacities, {});
    ASSERT_EQ(shares.has_value(), Exists(drawn)) << drawn.shape.DebugString();
    if (!shares.has_value()) continue;
    ++placed;
    ExpectSound(drawn, *shares);
    if (::testing::Test::HasFailure()) FAIL() << drawn.shape.DebugString();
  }
  EXPECT_GT(placed, 5'000);  // most cases are feasible
}

std::vector<Capacity> Cluster(const std::vector<std::pair<std::string_view, uint32_t>>& nodes) {
  std::vector<Capacity> capacities;
  for (const auto& [name, ranks] : nodes) {
    Capacity capacity{.node = name, .ranks = ranks};
    for (uint32_t device = 0; device < ranks; ++device) capacity.free.push_back(device);
    capacities.push_back(capacity);
  }
  return capacities;
}

TEST(Placement, TakesTheTightestSingleNodeAndKeepsLargeOnesFree) {
  v1::Shape shape;
  shape.set_processes(2);
  const auto shares = Place(shape, Cluster({{"big", 8}, {"small", 2}, {"tiny", 1}}), {});
  ASSERT_TRUE(shares.has_value());
  ASSERT_EQ(shares->size(), 1u);
  EXPECT_EQ(shares->front().node, "small");
}

TEST(Placement, ANodeThatStaysKeepsItsRanksAndAReplacementTakesTheLostOnes) {
  v1::Shape shape;
  shape.set_processes(3);
  shape.set_min_nodes(3);
  const auto shares = Place(shape, Cluster({{"a", 1}, {"c", 1}, {"d", 1}}), {"c", "b", "a"});
  ASSERT_TRUE(shares.has_value());
  EXPECT_EQ((*shares)[0].node, "c");
  EXPECT_EQ((*shares)[1].node, "d");
  EXPECT_EQ((*shares)[2].node, "a");
}

TEST(Placement, AnOversubscribedNodeDealsItsSlotsOutInTurn) {
  v1::Shape shape;
  shape.set_processes(5);
  std::vector<Capacity> capacities = Cluster({{"laptop", 2}});
  capacities[0].ranks = common::kRanksMax;
  capacities[0].oversubscribed = true;
  const auto shares = Place(shape, capacities, {});
  ASSERT_TRUE(shares.has_value());
  EXPECT_EQ(shares->front().devices, (std::vector<uint32_t>{0, 1, 0, 1, 0}));
}

}  // namespace
}  // namespace muster::coordinator
