// The place that is held for a job that waits: the devices on which it can start first, and when. Jobs behind it
// start only on other devices, or if they are expected to end before it starts. Never stored: every pass finds it
// again from the state, so it cannot disagree with what runs. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/core/scheduling/demand.h"
#include "coordinator/core/scheduling/ends.h"
#include "coordinator/core/scheduling/placement.h"
#include "coordinator/core/state/order.h"
#include "coordinator/core/state/state.h"

namespace muster::coordinator {

// An attempt that has devices now. `job` and `attempt` outlive this.
struct Occupant {
  const v1::JobRecord* job = nullptr;
  const v1::Attempt* attempt = nullptr;
  ExpectedEnd end;
};
// The live attempts, in the order in which they are expected to end; of those whose end is not known, the one that
// has lasted longest is first.
std::vector<Occupant> OccupantsOf(const SchedulingState& state, Now now);
// Puts one that starts in this pass into its place.
void AddOccupant(std::vector<Occupant>& occupants, Occupant added);

struct HeldPlace {
  QueuePlace holder;
  std::string kind;  // of the devices
  std::vector<Share> shares;
  // Jobs that have a device of it now.
  std::vector<Occupant> awaited;
  // Nodes of it that cannot be used now: silent, or not connected.
  std::vector<std::string> awaited_nodes;
  // When all of it is free; nullopt: nothing is known of an end that it waits for.
  std::optional<int64_t> from_mono_ms;
  // The same if those ends come later, by the allowance of each. nullopt as above.
  std::optional<int64_t> until_mono_ms;
  // A job that ends by then does not delay the holder.
  int64_t not_before_mono_ms = 0;
};

// Without the devices of `others`. nullopt: the job would not fit even if all others in service were idle.
std::optional<HeldPlace> FindHeldPlace(const SchedulingState& state,
                                       const std::vector<Occupant>& occupants,
                                       const std::vector<HeldPlace>& others, const Demand& demand,
                                       const std::string& kind, const v1::JobRecord& job, Now now);
// "node3 4, node4 4": the node and how many ranks.
std::string DescribeShares(const std::vector<Share>& shares);

}  // namespace muster::coordinator
