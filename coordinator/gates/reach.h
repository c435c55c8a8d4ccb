// What a worker can reach: the parts of attempts that were assigned to its node. A certificate proves
// the worker's node. Without one, its node is the one that it claims, and calls without a claim are not
// bound to a node.
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
  std::optional<uint64_t> incarnation;  // of its worker, if the message has it
  bool is_certified = false;
};

// From the caller's certificate. One that is not a worker's gives no node, and may reach nothing.
NodeIdentity NodeOf(const Caller& caller);
// The owner that must have shown the files of a reported checkpoint (Blobs::Prove): the attempt's part
// on that node. Empty without a certificate: such a worker may claim to be any node.
std::string ProofOwner(const NodeIdentity& sender, uint64_t job, uint32_t attempt);
// "node n1", or "an unnamed worker".
std::string Describe(const NodeIdentity& sender);

// Counts the refusal and logs it, at most one a second.
void TellDenied(Traffic& traffic, const Denial& denial);

// Whether the sender may transfer checkpoint files for this attempt. PERMISSION_DENIED (JC1341), also
// for what does not exist. `job` 0: from an older worker, which does not name the job; accepted only
// without certificates.
void CheckTransfer(Jobs& jobs, Gates& gates, Traffic& traffic, Process& process,
                   const NodeIdentity& sender, uint64_t job, uint32_t attempt,
                   std::function<void(absl::Status)> answer);
// Counts and logs the refusal (TellDenied), and returns JC1341.
absl::Status RefuseTransfer(Traffic& traffic, const NodeIdentity& sender, uint64_t job,
                            uint32_t attempt);

}  // namespace muster::coordinator
