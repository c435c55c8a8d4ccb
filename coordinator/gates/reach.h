// What a worker can reach: the parts of attempts that were assigned to its node. A worker with a
// certificate is the node that the certificate names. Without one, its node is what it says it is,
// and calls that say nothing are not bound to a node.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "coordinator/core/state/denial.h"
#include "coordinator/core/state/input.h"

namespace muster::coordinator {

struct Gates;
struct Jobs;
struct Process;
struct Traffic;

struct NodeIdentity {
  std::string node;                     // empty: unknown
  std::optional<uint64_t> incarnation;  // of its worker, where the message tells it
  bool is_certified = false;
};

// By the caller's certificate. One that is not a worker's is no node, and may reach nothing.
NodeIdentity NodeOf(const Caller& caller);
// Who must have shown the files of a checkpoint that it reports (Blobs::Prove): the attempt's part
// on that node. Empty without a certificate: such a worker may say that it is any node.
std::string ProofOwner(const NodeIdentity& sender, uint64_t job, uint32_t attempt);
// "node n1", or "an unnamed worker".
std::string Describe(const NodeIdentity& sender);

// Counts the refusal and logs it, at most one a second.
void TellDenied(Traffic& traffic, const Denial& denial);

// Whether the sender may transfer checkpoint files for this attempt. PERMISSION_DENIED (JC1341),
// the same for what does not exist. `job` 0: from an older worker, which does not say for which job
// it asks; accepted only without certificates.
void CheckTransfer(Jobs& jobs, Gates& gates, Traffic& traffic, Process& process,
                   const NodeIdentity& sender, uint64_t job, uint32_t attempt,
                   std::function<void(absl::Status)> answer);
// JC1341, once it is told (TellDenied).
absl::Status RefuseTransfer(Traffic& traffic, const NodeIdentity& sender, uint64_t job,
                            uint32_t attempt);

}  // namespace muster::coordinator
