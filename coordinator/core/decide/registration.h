// Checks a registration against what the coordinator knows: where the node was before, whether its
// host has been cleared, and which devices it had. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "coordinator/core/state/state.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

// FAILED_PRECONDITION (JC1411) while ranks may be alive on another machine that had this name,
// because the new machine can prove nothing about them. `known` is the node's current record.
absl::Status JudgeMachine(const ClusterState& state, const Node& known, const v1::NodeFacts& facts,
                          Now now);

// Whether the worker must kill what older workers left before its node may get jobs. Only the
// process that cleared the node last and has been its only worker since may skip it; after its own
// restart the coordinator does not know which process that is. Workers older than protocol 2 clear
// their host before they register. `known`: null for a new node.
bool NeedsClearing(const Node* known, const v1::Register& message);

// "its devices changed: cpu 4 → cpu 1", or empty. Compares only within one incarnation: a new
// incarnation is a new node. A private worker's cpu slots do not count as devices.
std::string DescribeDeviceChange(const v1::NodeFacts& before, const v1::NodeFacts& now);

}  // namespace muster::coordinator
