// What a job spec may say, whoever sends it: jobctl asks before it sends, the coordinator before it
// decides, and both get the same code and the same sentence. What only a cluster knows (whether its
// nodes could ever hold the job, whether a key was used) is the coordinator's to judge. Pure; any
// thread.
#pragma once

#include "absl/status/status.h"

namespace muster::v1 {
class JobSpec;
}

namespace muster::job {

// Every rule. INVALID_ARGUMENT with a code of 11xx, what is wrong and what to do: the first rule
// that is broken, and of several environment variables the first by name.
absl::Status Validate(const v1::JobSpec& spec);
// The first of these rules alone (JC1102): cheap, for whoever is to keep the spec.
absl::Status CheckSize(const v1::JobSpec& spec);

}  // namespace muster::job
