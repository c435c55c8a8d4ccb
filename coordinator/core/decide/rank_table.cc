#include "coordinator/core/decide/rank_table.h"

#include <set>
#include <string>

#include "common/device_kinds.h"

namespace muster::coordinator {
namespace {

// limit: nodes: ranks of one job that get a rank table; those of larger jobs negotiate
constexpr uint32_t kRankTableRanksMax = 4'096;  // each node gets all of it

// Null: no such device, or it has no address, or its series does not read the table.
const v1::Device* FindAddressed(const v1::NodeFacts& facts, const common::DeviceKind& kind,
                                uint32_t index) {
  for (const v1::Device& device : facts.devices()) {
    if (device.index() != index || device.kind() != kind.name || device.address().empty()) continue;
    const common::DeviceSeries* series = common::FindDeviceSeries(kind.series, device.model());
    return series != nullptr && series->reads_rank_table ? &device : nullptr;
  }
  return nullptr;
}

bool AddNode(const SchedulingState& state, const common::DeviceKind& kind, const v1::NodePart& part,
             v1::LaunchAttempt* launch) {
  const auto node = state.nodes.find(part.node());
  if (node == state.nodes.end()) return false;
  const v1::NodeFacts& facts = node->second.record.facts();
  if (facts.incarnation() != part.incarnation()) return false;
  if (static_cast<uint32_t>(part.device_indexes_size()) != part.local_world_size()) return false;
  v1::RankTableNode& row = *launch->add_rank_table();
  row.set_address(part.advertise());
  row.set_first_rank(part.first_rank());
  // A rank's LOCAL_RANK counts in the list of visible devices, which is ascending.
  const std::set<uint32_t> ascending(part.device_indexes().begin(), part.device_indexes().end());
  for (const uint32_t index : ascending) {
    const v1::Device* device = FindAddressed(facts, kind, index);
    if (device == nullptr) return false;
    row.add_devices(index);
    row.add_device_addresses(device->address());
  }
  return true;
}

}  // namespace

void FillRankTable(const SchedulingState& state, const v1::Attempt& attempt,
                   v1::LaunchAttempt* launch) {
  if (attempt.world_size() > kRankTableRanksMax) return;
  std::set<std::string> addresses;
  for (const v1::NodePart& part : attempt.parts()) {
    const common::DeviceKind* kind = common::FindDeviceKind(part.device_kind());
    if (kind == nullptr || kind->table_variable.empty() ||
        !addresses.insert(part.advertise()).second || !AddNode(state, *kind, part, launch)) {
      return launch->clear_rank_table();
    }
  }
}

}  // namespace muster::coordinator
