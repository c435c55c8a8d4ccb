// The environment of jobs in a cluster that has keys: what stands in the journal, the index and
// backups is encrypted (JobSpec.sealed_env); but for PATH, by which a node looks for the program. It is
// opened where it leaves: for its owner, for the nodes that start the ranks, and for `notify`.
#pragma once

#include "absl/status/status.h"
#include "coordinator/core/state/input.h"

namespace muster::coordinator {

class Cluster;

// Before the core gets it; of a rerun it is sealed already. Errors: those of job::Validate, which
// cannot look into it afterwards. Without a cluster nothing is done.
absl::Status SealEnvironment(const Cluster* cluster, SubmitInput* input);

// DATA_LOSS (JC1345): it was sealed with another key, or changed; nothing of it is in `spec` then. OK
// if nothing is sealed.
absl::Status OpenEnvironment(const Cluster* cluster, v1::JobSpec* spec);

}  // namespace muster::coordinator
