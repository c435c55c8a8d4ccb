// Checks what a job may bring and return: its code, setup, outputs and container. Part of Validate.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace muster::v1 {
class JobSpec;
class Mount;
}  // namespace muster::v1

namespace muster::job {

// Checks the working directory, and the names and sizes of the code.
absl::Status CheckCode(const v1::JobSpec& spec);
absl::Status CheckSetup(const v1::JobSpec& spec);
absl::Status CheckOutputs(const v1::JobSpec& spec);
absl::Status CheckContainer(const v1::JobSpec& spec);

// Whether nodes have to prepare something before the job's ranks start: code, setup or a container.
bool NeedsPreparation(const v1::JobSpec& spec);

// The path at which ranks see the mount: the same as on the node, unless it has a target. The reference lives
// as long as the mount.
const std::string& TargetOf(const v1::Mount& mount);

}  // namespace muster::job
