// What a job may ask of nodes besides devices: to enforce limits for its ranks, to prepare what it brings along. Each
// ability is a row: which jobs ask for it, and why a node does not have it. Pure.
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
};

struct Ability {
  Reason reason;  // of a job for which too few nodes have it
  bool (*is_asked)(const Demand& demand);
  // "limit memory": what of it the node lacks; empty: nothing.
  std::string (*lack)(const v1::NodeFacts& facts, const Demand& demand);
  Lack (*explain)(const v1::NodeFacts& facts, std::string what, const Demand& demand);
  Demand (*without)(Demand demand);
  // What nodes that have it can do: "run containers".
  std::string (*describe)(const Demand& demand);
};
std::span<const Ability> Abilities();

// What the node lacks of everything that the demand asks for: the first of it. Empty: nothing.
std::string LackOf(const v1::NodeFacts& facts, const Demand& demand);
// The registered nodes without the ability, by name.
std::vector<Lack> NodesThatLack(const SchedulingState& state, const Ability& ability,
                                const Demand& demand);
// "node1 cannot limit memory: WHY", for the first nodes.
std::string DescribeLacks(const std::vector<Lack>& lacks);

}  // namespace muster::coordinator
