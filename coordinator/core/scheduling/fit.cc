#include "coordinator/core/scheduling/fit.h"

#include <algorithm>
#include <utility>

#include "common/base/loopback.h"

namespace muster::coordinator {
namespace {

// Whether all nodes are on one host and therefore share the loopback device. A container there has
// its own host name.
bool OnOneHost(const std::vector<Capacity>& capacities) {
  const v1::NodeFacts& first = capacities[0].at->record.facts();
  return !first.hostname().empty() &&
         std::all_of(capacities.begin(), capacities.end(), [&](const Capacity& capacity) {
           const v1::NodeFacts& facts = capacity.at->record.facts();
           return facts.hostname() == first.hostname() && facts.boot_id() == first.boot_id();
         });
}

bool IsAtLoopback(const Capacity& capacity) {
  return common::IsLoopbackHost(capacity.at->record.facts().advertise());
}

}  // namespace

bool AllCanMeet(const std::vector<Capacity>& capacities) {
  return capacities.size() < 2 ||
         std::none_of(capacities.begin(), capacities.end(), IsAtLoopback) || OnOneHost(capacities);
}

std::optional<std::vector<Share>> Fit(const SchedulingState& state, const Usage& usage,
                                      const Demand& demand, const std::string& kind, Which which,
                                      const std::vector<std::string>& previous) {
  std::vector<Capacity> capacities = Capacities(state, usage, demand, kind, which);
  std::optional<std::vector<Share>> shares = Place(demand.shape, capacities, previous);
  if (!shares.has_value() || shares->size() < 2 || AllCanMeet(capacities)) return shares;
  std::erase_if(capacities, IsAtLoopback);
  return Place(demand.shape, capacities, previous);
}

std::vector<std::string> NodesOfLastAttempt(const v1::JobRecord& job) {
  std::vector<std::string> nodes;
  if (job.attempts().empty()) return nodes;
  for (const v1::NodePart& part : job.attempts().rbegin()->parts()) nodes.push_back(part.node());
  return nodes;
}

}  // namespace muster::coordinator
