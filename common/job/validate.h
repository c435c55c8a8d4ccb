// What a job spec may contain, from any sender: jobctl checks before it sends, the coordinator
// before it decides, and both return the same code and the same sentence. Checks that need the
// cluster (whether its nodes could ever hold the job, whether a key was used) are left to the
// coordinator. Pure; any thread.
#pragma once

#include "absl/status/status.h"

namespace muster::v1 {
class JobSpec;
}

namespace muster::job {

// Checks every rule. INVALID_ARGUMENT with a code of 11xx, what is wrong and how to fix it, for the
// first rule that is broken; of several environment variables, for the first by name.
absl::Status Validate(const v1::JobSpec& spec);
// Checks only the ranges of the spec's numbers: priority, durations, budgets (JC1108).
absl::Status CheckNumbers(const v1::JobSpec& spec);
// Checks only the first of these rules (JC1102): cheap enough to do before keeping the spec.
absl::Status CheckSize(const v1::JobSpec& spec);

}  // namespace muster::job
