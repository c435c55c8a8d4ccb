// What a job may require of nodes besides devices: enforcing limits for its ranks, preparing its code, setup or
// container. Each ability is a row: which jobs require it, and why a node does not have it. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "coordinator/core/scheduling/demand.h"
#include "coordinator/core/state/blockers.h"
#include "coordinator/core/state/state.h"

namespace muster::coordinator {

// A node without an ability: "node1 cannot limit memory: WHY; fix: FIX".
struct Lack {
  std::string node;
  std::string what;  // "limit memory", "prepare code", "run containers"
  std::string why;
  std::string fix;
  bool is_of_job = false;  // the fix changes the job, not the node
};

struct Ability {
  Reason reason;  // reported for a job if too few nodes have the ability
  bool (*is_asked)(const Demand& demand);
  // The part of it that the node lacks: "limit memory"; empty: none.
  std::string (*lack)(const v1::NodeFacts& facts, const Demand& demand);
  Lack (*explain)(const v1::NodeFacts& facts, std::string what, const Demand& demand);
  Demand (*without)(Demand demand);
  // What nodes with the ability can do: "run containers".
  std::string (*describe)(const Demand& demand);
};
std::span<const Ability> Abilities();

// The first ability that the demand requires and the node lacks. Empty: none.
std::string LackOf(const v1::NodeFacts& facts, const Demand& demand);
// The registered nodes without the ability, by name.
std::vector<Lack> NodesThatLack(const SchedulingState& state, const Ability& ability,
                                const Demand& demand);
// "node1 cannot limit memory: WHY", for the first nodes.
std::string DescribeLacks(const std::vector<Lack>& lacks);

}  // namespace muster::coordinator
