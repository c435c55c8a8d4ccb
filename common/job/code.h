// What a job may bring and take along: its code, setup, outputs and container. Part of Validate.
#pragma once

#include "absl/status/status.h"

namespace muster::v1 {
class JobSpec;
}

namespace muster::job {

// The working directory, and the names and sizes of the code.
absl::Status CheckCode(const v1::JobSpec& spec);
absl::Status CheckSetup(const v1::JobSpec& spec);
absl::Status CheckOutputs(const v1::JobSpec& spec);
absl::Status CheckContainer(const v1::JobSpec& spec);

}  // namespace muster::job
