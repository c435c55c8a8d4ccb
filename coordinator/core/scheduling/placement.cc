#include "coordinator/core/scheduling/placement.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/device_kinds.h"
#include "coordinator/core/scheduling/abilities.h"

namespace muster::coordinator {
namespace {

bool Matches(const v1::Device& device, const v1::DeviceConstraint& want) {
  if (device.memory_bytes() < want.min_memory_bytes()) return false;
  if (want.model().empty()) return true;
  const std::string model = absl::AsciiStrToLower(device.model());
  return model.find(absl::AsciiStrToLower(want.model())) != std::string::npos;
}

Capacity CapacityOf(const Node& node, const std::vector<uint32_t>& used,
                    const v1::DeviceConstraint& want, const std::string& kind) {
  const v1::NodeFacts& facts = node.record.facts();
  Capacity capacity{.oversubscribed = common::IsHostKind(kind) && facts.oversubscribe_cpu(),
                    .at = &node};
  static const std::vector<uint32_t> kNone;
  ForEachFree(OfKind(node.devices, kind), capacity.oversubscribed ? kNone : used,
              [&](uint32_t device) { capacity.free.push_back(device); });
  if (!want.model().empty() || want.min_memory_bytes() > 0) {
    for (const v1::Device& device : facts.devices()) {
      if (device.kind() != kind || Matches(device, want)) continue;
      const auto at = std::find(capacity.free.begin(), capacity.free.end(), device.index());
      if (at != capacity.free.end()) capacity.free.erase(at);
    }
  }
  capacity.ranks = static_cast<uint32_t>(capacity.free.size()) / DevicesPerRank(want);
  if (capacity.oversubscribed && !capacity.free.empty()) capacity.ranks = common::kRanksMax;
  return capacity;
}

// The lowest free devices; an oversubscribed node assigns its slots round-robin.
std::vector<uint32_t> TakeDevices(const Capacity& capacity, uint32_t count) {
  CHECK(count == 0 || !capacity.free.empty());  // CapacityOf gives no ranks to a node without any
  std::vector<uint32_t> devices;
  for (uint32_t i = 0; i < count; ++i) devices.push_back(capacity.free[i % capacity.free.size()]);
  return devices;
}

// Largest first. Those of one size stay in the order of their names, in which they are found.
void SortByRoom(std::vector<Capacity>& capacities) {
  const auto has_more = [](const Capacity& a, const Capacity& b) { return a.ranks > b.ranks; };
  if (std::is_sorted(capacities.begin(), capacities.end(), has_more)) return;
  std::stable_sort(capacities.begin(), capacities.end(), has_more);
}

// Calls use(node) for each, smallest first, so that large nodes stay free for large gangs; those of one size in the order
// in which they are. Until it returns false.
template <typename Use>
void TightestFirst(const std::vector<Capacity>& capacities, Use use) {
  for (size_t end = capacities.size(); end > 0;) {
    size_t begin = end - 1;
    while (begin > 0 && capacities[begin - 1].ranks == capacities[end - 1].ranks) --begin;
    for (size_t i = begin; i < end; ++i) {
      if (!use(capacities[i])) return;
    }
    end = begin;
  }
}

struct Split {
  const Capacity* node;
  uint32_t ranks;
};

// nodes × per_node: as many of the allowed nodes as exist.
std::vector<Split> SplitPerNode(const v1::Shape& shape, const std::vector<Capacity>& capacities) {
  const uint32_t least = std::max<uint32_t>(shape.min_nodes(), 1);
  const uint32_t most = std::max(shape.max_nodes(), least);
  std::vector<Split> split;
  TightestFirst(capacities, [&](const Capacity& node) {
    if (node.ranks >= shape.per_node()) split.push_back({&node, shape.per_node()});
    return split.size() < most;
  });
  if (split.size() < least) split.clear();
  return split;
}

// A total over exactly `count` nodes, the same on each but for one rank: on the tightest nodes that have room for it.
std::vector<Split> SplitAlike(uint32_t total, uint32_t count,
                              const std::vector<Capacity>& capacities) {
  const uint32_t most = (total + count - 1) / count;
  std::vector<Split> split;
  TightestFirst(capacities, [&](const Capacity& node) {
    if (node.ranks >= most) split.push_back({&node, 0});
    return split.size() < count;
  });
  if (split.size() < count) return {};
  for (uint32_t rank = 0; rank < total; ++rank) ++split[rank % count].ranks;
  return split;
}

// A total over exactly `count` nodes, each with at least one rank, as evenly as their capacity
// allows.
std::vector<Split> SplitEvenly(uint32_t total, uint32_t count,
                               const std::vector<Capacity>& capacities) {
  if (count == 0 || total < count) return {};
  std::vector<Split> split = SplitAlike(total, count, capacities);
  if (!split.empty()) return split;
  uint64_t room = 0;
  for (uint32_t i = 0; i < count && i < capacities.size(); ++i) {
    if (capacities[i].ranks > 0) split.push_back({&capacities[i], 0});
    room += capacities[i].ranks;
  }
  if (split.size() != count || room < total) return {};
  for (uint32_t left = total; left > 0;) {
    for (Split& part : split) {
      if (left == 0 || part.ranks == part.node->ranks) continue;
      ++part.ranks;
      --left;
    }
  }
  return split;
}

// A total over as few nodes as possible: the tightest fit on one, otherwise the roomiest ones
// filled in order.
std::vector<Split> SplitPacked(uint32_t total, const std::vector<Capacity>& capacities) {
  std::vector<Split> split;
  TightestFirst(capacities, [&](const Capacity& node) {
    if (node.ranks >= total) split.push_back({&node, total});
    return split.empty();
  });
  if (!split.empty()) return split;
  for (const Capacity& node : capacities) {
    const uint32_t ranks = std::min(node.ranks, total);
    if (ranks == 0) break;
    split.push_back({&node, ranks});
    total -= ranks;
  }
  if (total > 0) split.clear();
  return split;
}

std::vector<Split> SplitTotal(const v1::Shape& shape, const std::vector<Capacity>& capacities) {
  if (shape.min_nodes() == 0) return SplitPacked(shape.processes(), capacities);
  const uint32_t most = std::max(shape.max_nodes(), shape.min_nodes());
  for (uint32_t count = shape.min_nodes(); count <= most; ++count) {
    std::vector<Split> split = SplitEvenly(shape.processes(), count, capacities);
    if (!split.empty()) return split;
  }
  return {};
}

std::vector<Split> SplitShape(const v1::Shape& shape, const std::vector<Capacity>& capacities) {
  return shape.per_node() > 0 ? SplitPerNode(shape, capacities) : SplitTotal(shape, capacities);
}

// Nodes of the last attempt keep their positions; others fill the gaps in name order.
std::vector<Split> Order(std::vector<Split> split, const std::vector<std::string>& previous) {
  std::sort(split.begin(), split.end(),
            [](const Split& a, const Split& b) { return a.node->node < b.node->node; });
  std::unordered_map<std::string_view, size_t> places;
  for (const std::string& node : previous) places.emplace(node, places.size());
  std::vector<Split> ordered(split.size(), Split{nullptr, 0});
  std::vector<Split> newcomers;
  for (const Split& part : split) {
    const auto place = places.find(part.node->node);
    if (place != places.end() && place->second < ordered.size()) {
      ordered[place->second] = part;
    } else {
      newcomers.push_back(part);
    }
  }
  auto next = newcomers.begin();
  for (Split& slot : ordered) {
    if (slot.node == nullptr) slot = *next++;
  }
  return ordered;
}

}  // namespace

uint32_t DevicesPerRank(const v1::DeviceConstraint& device) {
  return std::max<uint32_t>(device.count_per_rank(), 1);
}

bool IsUsableNow(const Node& node) {
  return IsInService(node) && node.record.connected() && node.cleared &&
         node.record.state() == v1::NODE_STATE_ALIVE;
}

bool IsInService(const Node& node) {
  return node.record.state() != v1::NODE_STATE_LOST && !node.record.draining();
}

std::vector<Capacity> Capacities(const SchedulingState& state, const Usage& usage,
                                 const Demand& demand, const std::string& kind, Which which) {
  static const Usage kNothing;
  const bool counts_usage = which == Which::kFreeNow || which == Which::kFreeLater;
  std::vector<Capacity> capacities;
  Usage::Walk used(counts_usage ? usage : kNothing);
  for (const auto& [name, node] : state.nodes) {
    if (which == Which::kFreeNow && !IsUsableNow(node)) continue;
    if (which != Which::kEver && !IsInService(node)) continue;
    Capacity capacity =
        CapacityOf(node, OfKind(used.At(name, node), kind), demand.shape.device(), kind);
    if (capacity.ranks == 0 || !LackOf(node.record.facts(), demand).empty()) continue;
    capacity.node = name;
    capacities.push_back(std::move(capacity));
  }
  SortByRoom(capacities);
  return capacities;
}

std::string ResolveKind(const SchedulingState& state, const v1::DeviceConstraint& device) {
  if (!device.kind().empty()) return device.kind();
  for (const common::DeviceKind& kind : common::DeviceKinds()) {
    const std::string name(kind.name);
    if (!kind.is_host && state.kinds.contains(name)) return name;
  }
  return std::string(common::HostKind().name);
}

std::optional<std::vector<Share>> Place(const v1::Shape& shape,
                                        const std::vector<Capacity>& capacities,
                                        const std::vector<std::string>& previous) {
  std::vector<Split> split = SplitShape(shape, capacities);
  if (split.empty()) return std::nullopt;
  std::vector<Share> shares;
  for (const Split& part : Order(std::move(split), previous)) {
    shares.push_back({std::string(part.node->node), part.ranks,
                      TakeDevices(*part.node, part.ranks * DevicesPerRank(shape.device()))});
  }
  return shares;
}

bool HasPlace(const v1::Shape& shape, std::vector<Capacity> capacities) {
  SortByRoom(capacities);
  return !SplitShape(shape, capacities).empty();
}

std::string DescribeCapacities(const std::vector<Capacity>& capacities) {
  constexpr size_t kNodesNamed = 5;
  uint64_t total = 0;
  std::vector<std::string> nodes;
  size_t holding = 0;
  for (const Capacity& capacity : capacities) {
    if (capacity.ranks == 0) continue;
    total += capacity.ranks;
    if (++holding <= kNodesNamed)
      nodes.push_back(absl::StrCat(std::string(capacity.node), " ", capacity.ranks));
  }
  if (total == 0) return "none";
  if (holding > kNodesNamed) nodes.push_back(absl::StrCat(holding - kNodesNamed, " more"));
  return absl::StrCat(total, " (", absl::StrJoin(nodes, ", "), ")");
}

}  // namespace muster::coordinator
