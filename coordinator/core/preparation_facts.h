// What a job needs prepared on its nodes before its ranks start (code, setup, container), which nodes
// can, and what they report of it. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/core/state.h"

namespace muster::coordinator {

// Older workers would start the ranks without what the job brings along.
inline constexpr uint32_t kProtocolPrepares = 3;

// What placement asks of the nodes.
struct Demand {
  v1::Shape shape;
  bool prepares = false;   // code, setup or a container
  bool container = false;  // also one of its own

  // Equal for jobs that placement treats alike.
  std::string Key() const;
};
Demand DemandOf(const v1::JobSpec& spec);
bool NeedsPreparation(const v1::JobSpec& spec);
// What DemandOf reads, into a spec that has nothing else.
void CopyDemand(const v1::JobSpec& from, v1::JobSpec* to);

struct NodeThatCannotPrepare {
  std::string node;
  std::string what;  // "prepare code", "run containers"
  std::string why;
  std::string fix;
};

// "prepare code", "run containers": what of the demand the node's worker cannot do; empty: nothing.
std::string CannotPrepare(const v1::NodeFacts& facts, const Demand& demand);
// The registered nodes that cannot, by name.
std::vector<NodeThatCannotPrepare> NodesThatCannotPrepare(const ClusterState& state,
                                                          const Demand& demand);
// "node1 cannot run containers: REASON", for the first nodes.
std::string DescribeNodesThatCannotPrepare(const std::vector<NodeThatCannotPrepare>& nodes);

// A worker's report, within limits and safe to print. `doing` only of a preparation that lasts. The
// output of setup only if few nodes of the attempt have told theirs: they all print the same.
v1::Preparation BoundPreparation(const v1::Attempt& attempt, const v1::Preparation& said);
// What a worker is doing, in the same way.
std::string BoundDoing(const v1::Preparation& said);

// "node1: fetching code: 120 MB of 2.1 GB (2 more nodes are preparing)"; empty: none is preparing.
std::string DescribePreparing(const v1::Attempt& attempt);

}  // namespace muster::coordinator
