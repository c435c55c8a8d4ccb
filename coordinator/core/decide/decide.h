// Decide: one input against the state → facts and replies. Changes nothing.
#pragma once

#include <optional>
#include <vector>

#include "coordinator/core/decide/effects.h"
#include "coordinator/core/state/denial.h"
#include "coordinator/core/state/input.h"
#include "coordinator/core/state/state.h"

namespace muster::coordinator {

struct Decision {
  std::vector<v1::Event> facts;  // seq unset; valid to apply in this order
  // Commands that no event implies: heartbeat replies, dismissals, acknowledgements.
  std::vector<Command> commands;
  Reply reply;
  std::vector<Denial> denials;
};

Decision Decide(const ClusterState& state, const Input& input, Now now);

// For a bulk response: the result for one subject.
void SetStatus(const absl::Status& status, v1::BulkResult* result);
v1::BulkResult ResultFor(uint64_t id, const v1::JobRecord* job);
v1::BulkResult NotLive(uint64_t id);
// Whether jobs of the project may have this priority. PERMISSION_DENIED.
absl::Status CheckCeiling(const ClusterState& state, const std::string& project, int32_t priority);
// About the job, and the attempt that lives.
v1::Event LiveJobEvent(const v1::JobRecord& job, Now now);
// Null: it is not live.
const v1::JobRecord* FindJob(const ClusterState& state, uint64_t id);

// The branches, one per file. decide_submit.cc:
Decision DecideOn(const ClusterState& state, const SubmitInput& input, Now now);
// The job that a submit would make now, without its spec's hash.
v1::JobRecord SubmittedRecord(const SchedulingState& state, const SubmitInput& input, Now now);
// decide_node.cc:
Decision DecideOn(const ClusterState& state, const DrainInput& input, Now now);
Decision DecideOn(const ClusterState& state, const DeclareDeadInput& input, Now now);
Decision DecideOn(const ClusterState& state, const RemoveNodeInput& input, Now now);
// decide_stop.cc:
Decision DecideOn(const ClusterState& state, const StopInput& input, Now now);
Decision DecideOn(const ClusterState& state, const ReleaseInput& input, Now now);
// A time to save that is out of range: INVALID_ARGUMENT.
absl::Status CheckNotice(std::optional<uint32_t> notice_ms);
// How many jobs are asked to leave the node.
size_t AddEvictions(const ClusterState& state, const DrainInput& input, Now now,
                    Decision& decision);
// Who has not left the node yet may stay.
void AddEvictionsTakenBack(const ClusterState& state, const DrainInput& input, Now now,
                           Decision& decision);
// decide_worker.cc:
Decision DecideOn(const ClusterState& state, const WorkerRegisteredInput& input, Now now);
Decision DecideOn(const ClusterState& state, const WorkerSaidInput& input, Now now);
Decision DecideOn(const ClusterState& state, const WorkerGoneInput& input, Now now);

// protocol.cc: whether `program` of this version may talk to us. FAILED_PRECONDITION with the
// reason and what to upgrade: the coordinator is upgraded first, so it accepts nothing newer than
// itself.
absl::Status JudgeProtocol(const std::string& program, const std::string& version,
                           uint32_t protocol);

}  // namespace muster::coordinator
