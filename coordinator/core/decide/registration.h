// What a registration is checked against besides the worker's own statements: where the node was
// before, whether its host has been cleared, and which devices it had. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "coordinator/core/state/state.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::coordinator {

// FAILED_PRECONDITION (JC1411) while ranks may be alive on another machine that had this name: the
// new one can prove nothing about them. `known` is the node's current record.
absl::Status JudgeMachine(const ClusterState& state, const Node& known, const v1::NodeFacts& facts,
                          Now now);

// Whether the worker must kill what older workers left before its node counts for anything. Not
// needed only for the very process that cleared it last and has been its only worker since; a
// restarted coordinator does not know that. Workers older than protocol 2 clear their host before
// they register. `known`: null for a new node.
bool NeedsClearing(const Node* known, const v1::Register& message);

// "its devices changed: cpu 4 → cpu 1", or empty. For the same worker state: a new incarnation is a
// new node. A private worker's cpu slots do not count as devices.
std::string DescribeDeviceChange(const v1::NodeFacts& before, const v1::NodeFacts& now);

}  // namespace muster::coordinator
