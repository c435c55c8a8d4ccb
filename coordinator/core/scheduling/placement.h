// Where a gang could run: typed devices, uneven splits, no partial starts. Pure functions over a
// snapshot.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "coordinator/core/scheduling/demand.h"
#include "coordinator/core/scheduling/usage.h"
#include "coordinator/core/state/state.h"

namespace muster::coordinator {

// How many ranks a node could take.
struct Capacity {
  std::string_view node;  // of the state
  uint32_t ranks = 0;
  absl::InlinedVector<uint32_t, 8> free;  // indexes
  bool oversubscribed = false;
  const Node* at = nullptr;  // null in arithmetic without nodes
};

enum class Which {
  kFreeNow,    // nodes usable now, without the devices in use
  kFreeLater,  // nodes in service as below, without the devices in use
  kInService,  // nodes that are or will be usable without anyone's action, with all their devices
  kEver,       // all registered nodes with all their devices, including drained and lost ones
};
// What is assigned to it starts at once.
bool IsUsableNow(const Node& node);
// Neither lost nor drained. A silent node counts: it will come back or become lost.
bool IsInService(const Node& node);
// The nodes with room for a rank, largest first, then by name. A node that cannot enforce the shape's limits, or cannot
// prepare what the job brings along, has none.
std::vector<Capacity> Capacities(const SchedulingState& state, const Usage& usage,
                                 const Demand& demand, const std::string& kind, Which which);

uint32_t DevicesPerRank(const v1::DeviceConstraint& device);

// The constraint's kind; if it names none, the first accelerator in common/device_kinds.cc that any
// registered node has, otherwise cpu.
std::string ResolveKind(const SchedulingState& state, const v1::DeviceConstraint& device);

// Shares in rank order, or nullopt if the shape does not fit into `capacities`, which are as Capacities gives them. Prefers few nodes,
// then the tightest fit, then names. `previous` is the last attempt's node order: nodes that stay
// keep their position, so that ranks are stable and a replacement takes over the lost node's ranks.
std::optional<std::vector<Share>> Place(const v1::Shape& shape,
                                        const std::vector<Capacity>& capacities,
                                        const std::vector<std::string>& previous);

// Whether Place finds shares. Needs only the ranks of `capacities`, in any order.
bool HasPlace(const v1::Shape& shape, std::vector<Capacity> capacities);

// "4 ranks on 2 nodes (node-a 2, node-b 2)": the most ranks that fit into `capacities`.
std::string DescribeCapacities(const std::vector<Capacity>& capacities);

}  // namespace muster::coordinator
