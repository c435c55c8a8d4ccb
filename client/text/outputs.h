// Finds and describes a job's outputs: of which attempt, from which nodes. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

// JOB or JOB@ATTEMPT.
struct AttemptOfJob {
  std::string job;
  std::optional<uint32_t> attempt;
};
AttemptOfJob ParseAttemptOfJob(std::string_view text);

// The committed outputs of this attempt, or the newest ones if no attempt is given. Errors: JC1720,
// JC1721 with the reason.
absl::StatusOr<v1::Checkpoint> FindOutputs(const v1::JobRecord& job,
                                           std::optional<uint32_t> attempt);
// The node's name, by its number in the attempt; "node 3" if the record no longer has the attempt.
std::string OutputsNode(const v1::JobRecord& job, uint32_t attempt, uint32_t part);
// "of 3 nodes", "of 2 of 3 nodes: nothing came back from node2".
std::string OutputsNodes(const v1::JobRecord& job, const v1::Checkpoint& outputs);
// Lines about what did not come back: "node1: not taken: x (a symbolic link)".
std::vector<std::string> OutputsNotes(const v1::JobRecord& job, uint32_t attempt);
v1::CheckpointReference OutputsReference(const v1::JobRecord& job, const v1::Checkpoint& outputs);

}  // namespace muster::client
