// Which nodes can enforce the limits that a job sets for its ranks: what their workers reported.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "coordinator/core/state.h"

namespace muster::coordinator {

struct NodeWithoutLimits {
  std::string node;
  std::string what;  // "memory", "cpus", "cpus and memory"
  std::string why;
  std::string fix;
};

// Whether the node can enforce all of `limits`. One whose worker does not report is too old and
// cannot.
bool CanLimit(const v1::NodeFacts& facts, const v1::RankLimits& limits);
// What of `limits` the node cannot enforce: "memory", "cpus and memory"; empty if nothing.
std::string CannotLimit(const v1::NodeFacts& facts, const v1::RankLimits& limits);
// The registered nodes that cannot enforce all of `limits`, by name.
std::vector<NodeWithoutLimits> NodesWithoutLimits(const ClusterState& state,
                                                  const v1::RankLimits& limits);
// "node1 cannot limit memory: REASON; fix: FIX", for the first nodes.
std::string DescribeNodesWithoutLimits(const std::vector<NodeWithoutLimits>& nodes);

}  // namespace muster::coordinator
