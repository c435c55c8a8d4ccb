// What a job may bring and take along: its code, setup, outputs and container. Part of Validate.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace muster::v1 {
class JobSpec;
class Mount;
}  // namespace muster::v1

namespace muster::job {

// The working directory, and the names and sizes of the code.
absl::Status CheckCode(const v1::JobSpec& spec);
absl::Status CheckSetup(const v1::JobSpec& spec);
absl::Status CheckOutputs(const v1::JobSpec& spec);
absl::Status CheckContainer(const v1::JobSpec& spec);

// Whether it brings something along that nodes prepare before its ranks start: code, setup or a container.
bool NeedsPreparation(const v1::JobSpec& spec);

// Where ranks see it: where it is on the node, unless the mount says otherwise. Lives as long as that.
const std::string& TargetOf(const v1::Mount& mount);

}  // namespace muster::job
