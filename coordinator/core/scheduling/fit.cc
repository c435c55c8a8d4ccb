#include "coordinator/core/scheduling/fit.h"

#include <algorithm>
#include <utility>

#include "common/base/loopback.h"

namespace muster::coordinator {
namespace {

// Whether all nodes are on one host and therefore share the loopback device. A container there has
// its own host name.
bool OnOneHost(const SchedulingState& state, const std::vector<Capacity>& capacities) {
  const v1::NodeFacts& first = state.nodes.at(capacities[0].node).record.facts();
  return !first.hostname().empty() &&
         std::all_of(capacities.begin(), capacities.end(), [&](const Capacity& capacity) {
           const v1::NodeFacts& facts = state.nodes.at(capacity.node).record.facts();
           return facts.hostname() == first.hostname() && facts.boot_id() == first.boot_id();
         });
}

// A gang that spans hosts cannot rendezvous at a loopback address.
void DropLoopbackWhenSpanning(const SchedulingState& state, const v1::Shape& shape,
                              std::vector<Capacity>& capacities) {
  if (capacities.size() < 2 || OnOneHost(state, capacities)) return;
  if (Place(shape, capacities, {}).value_or(std::vector<Share>{}).size() < 2) return;
  std::erase_if(capacities, [&](const Capacity& capacity) {
    return common::IsLoopbackHost(state.nodes.at(capacity.node).record.facts().advertise());
  });
}

}  // namespace

std::optional<std::vector<Share>> Fit(const SchedulingState& state, const Usage& usage,
                                      const Demand& demand, const std::string& kind, Which which,
                                      const std::vector<std::string>& previous) {
  std::vector<Capacity> capacities = Capacities(state, usage, demand, kind, which);
  DropLoopbackWhenSpanning(state, demand.shape, capacities);
  return Place(demand.shape, std::move(capacities), previous);
}

}  // namespace muster::coordinator
