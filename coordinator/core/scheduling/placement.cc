#include "coordinator/core/scheduling/placement.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/device_kinds.h"
#include "coordinator/core/scheduling/abilities.h"

namespace muster::coordinator {
namespace {

bool Matches(const v1::Device& device, const std::string& kind, const v1::DeviceConstraint& want) {
  if (device.kind() != kind || device.memory_bytes() < want.min_memory_bytes()) return false;
  if (want.model().empty()) return true;
  const std::string model = absl::AsciiStrToLower(device.model());
  return model.find(absl::AsciiStrToLower(want.model())) != std::string::npos;
}

Capacity CapacityOf(const Node& node, const std::vector<uint32_t>& used,
                    const v1::DeviceConstraint& want, const std::string& kind) {
  const v1::NodeFacts& facts = node.record.facts();
  Capacity capacity{{}, 0, {}, common::IsHostKind(kind) && facts.oversubscribe_cpu()};
  for (const v1::Device& device : facts.devices()) {
    if (!Matches(device, kind, want)) continue;
    if (!capacity.oversubscribed &&
        std::find(used.begin(), used.end(), device.index()) != used.end()) {
      continue;
    }
    capacity.free.push_back(device.index());
  }
  std::sort(capacity.free.begin(), capacity.free.end());
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
  std::stable_sort(capacities.begin(), capacities.end(),
                   [](const Capacity& a, const Capacity& b) { return a.ranks > b.ranks; });
}

// Smallest first, so that large nodes stay free for large gangs; ties as above.
std::vector<const Capacity*> TightestFirst(const std::vector<Capacity>& capacities) {
  std::vector<const Capacity*> nodes;
  for (const Capacity& capacity : capacities) nodes.push_back(&capacity);
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const Capacity* a, const Capacity* b) { return a->ranks < b->ranks; });
  return nodes;
}

const std::vector<uint32_t>& UsedOf(const Usage::mapped_type& on_node, const std::string& kind) {
  static const std::vector<uint32_t> kNone;
  const auto of_kind = on_node.find(kind);
  return of_kind == on_node.end() ? kNone : of_kind->second;
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
  for (const Capacity* node : TightestFirst(capacities)) {
    if (split.size() < most && node->ranks >= shape.per_node()) {
      split.push_back({node, shape.per_node()});
    }
  }
  if (split.size() < least) split.clear();
  return split;
}

// A total over exactly `count` nodes, the same on each but for one rank: on the tightest nodes that have room for it.
std::vector<Split> SplitAlike(uint32_t total, uint32_t count,
                              const std::vector<Capacity>& capacities) {
  const uint32_t most = (total + count - 1) / count;
  std::vector<Split> split;
  for (const Capacity* node : TightestFirst(capacities)) {
    if (split.size() == count) break;
    if (node->ranks >= most) split.push_back({node, 0});
  }
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
  for (const Capacity* node : TightestFirst(capacities)) {
    if (node->ranks >= total) return {{node, total}};
  }
  std::vector<Split> split;
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
  std::vector<Split> ordered(split.size(), Split{nullptr, 0});
  std::vector<Split> newcomers;
  for (const Split& part : split) {
    const auto place = std::find(previous.begin(), previous.end(), part.node->node);
    const size_t index = static_cast<size_t>(place - previous.begin());
    if (place != previous.end() && index < ordered.size() && ordered[index].node == nullptr) {
      ordered[index] = part;
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

void AddUsage(Usage& usage, const v1::Attempt& attempt) {
  for (const v1::NodePart& part : attempt.parts()) {
    if (part.ended()) continue;
    std::vector<uint32_t>& used = usage[part.node()][part.device_kind()];
    used.insert(used.end(), part.device_indexes().begin(), part.device_indexes().end());
  }
}

void RemoveUsage(Usage& usage, const v1::Attempt& attempt) {
  for (const v1::NodePart& part : attempt.parts()) {
    if (part.ended()) continue;
    std::vector<uint32_t>& used = usage[part.node()][part.device_kind()];
    for (const uint32_t device : part.device_indexes()) {
      if (const auto at = std::find(used.begin(), used.end(), device); at != used.end())
        used.erase(at);
    }
  }
}

bool HasDeviceOf(const v1::Attempt& attempt, const std::string& kind,
                 const std::vector<Share>& shares) {
  return std::any_of(attempt.parts().begin(), attempt.parts().end(), [&](const v1::NodePart& part) {
    if (part.ended() || part.device_kind() != kind) return false;
    return std::any_of(shares.begin(), shares.end(), [&](const Share& share) {
      return share.node == part.node() &&
             std::find_first_of(share.devices.begin(), share.devices.end(),
                                part.device_indexes().begin(),
                                part.device_indexes().end()) != share.devices.end();
    });
  });
}

void AddUsage(Usage& usage, const std::string& kind, const std::vector<Share>& shares) {
  for (const Share& share : shares) {
    std::vector<uint32_t>& used = usage[share.node][kind];
    used.insert(used.end(), share.devices.begin(), share.devices.end());
  }
}

Usage UsageOf(const SchedulingState& state) {
  Usage usage;
  for (const uint64_t id : state.active) {
    const v1::Attempt* attempt = LiveAttempt(state.jobs.at(id));
    if (attempt != nullptr) AddUsage(usage, *attempt);
  }
  return usage;
}

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
  const Usage::mapped_type nothing;
  const bool counts_usage = which == Which::kFreeNow || which == Which::kFreeLater;
  std::vector<Capacity> capacities;
  auto used = usage.begin();  // both are in the order of the nodes' names
  for (const auto& [name, node] : state.nodes) {
    if (which == Which::kFreeNow && !IsUsableNow(node)) continue;
    if (which != Which::kEver && !IsInService(node)) continue;
    while (counts_usage && used != usage.end() && used->first < name) ++used;
    const bool is_used = counts_usage && used != usage.end() && used->first == name;
    Capacity capacity = CapacityOf(node, UsedOf(is_used ? used->second : nothing, kind),
                                   demand.shape.device(), kind);
    if (capacity.ranks == 0 || !LackOf(node.record.facts(), demand).empty()) continue;
    capacity.node = name;
    capacities.push_back(std::move(capacity));
  }
  SortByRoom(capacities);
  return capacities;
}

std::string ResolveKind(const SchedulingState& state, const v1::DeviceConstraint& device) {
  if (!device.kind().empty()) return device.kind();
  std::set<std::string> kinds;
  for (const auto& [name, node] : state.nodes) {
    for (const v1::Device& known : node.record.facts().devices()) kinds.insert(known.kind());
  }
  for (const common::DeviceKind& kind : common::DeviceKinds()) {
    const std::string name(kind.name);
    if (!kind.is_host && kinds.contains(name)) return name;
  }
  return std::string(common::HostKind().name);
}

std::optional<std::vector<Share>> Place(const v1::Shape& shape, std::vector<Capacity> capacities,
                                        const std::vector<std::string>& previous) {
  SortByRoom(capacities);
  std::vector<Split> split = SplitShape(shape, capacities);
  if (split.empty()) return std::nullopt;
  std::vector<Share> shares;
  for (const Split& part : Order(std::move(split), previous)) {
    shares.push_back({part.node->node, part.ranks,
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
    if (++holding <= kNodesNamed) nodes.push_back(absl::StrCat(capacity.node, " ", capacity.ranks));
  }
  if (total == 0) return "none";
  if (holding > kNodesNamed) nodes.push_back(absl::StrCat(holding - kNodesNamed, " more"));
  return absl::StrCat(total, " (", absl::StrJoin(nodes, ", "), ")");
}

}  // namespace muster::coordinator
