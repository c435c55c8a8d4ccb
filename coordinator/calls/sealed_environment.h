// The environment of jobs in a cluster that has keys: it is encrypted in the journal, the index and backups
// (JobSpec.sealed_env), except for PATH, with which a node looks for the program, and the precision
// that it declares (common/job/precision.h). It is decrypted where it leaves: for its owner, for the nodes that start the ranks, and for `notify`.
#pragma once

#include "absl/status/status.h"
#include "coordinator/core/state/input.h"

namespace muster::coordinator {

class Cluster;

// Call it before the core gets the input; a rerun's environment is sealed already. Errors: those of
// job::Validate, which cannot look into it afterwards. Without a cluster it does nothing.
absl::Status SealEnvironment(const Cluster* cluster, SubmitInput* input);

// DATA_LOSS (JC1345): it was sealed with another key, or changed; then nothing of it is in `spec`. OK if
// nothing is sealed.
absl::Status OpenEnvironment(const Cluster* cluster, v1::JobSpec* spec);

}  // namespace muster::coordinator
