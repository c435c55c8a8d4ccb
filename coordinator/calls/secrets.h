// The values of secrets, on their way from the directory to the nodes that start their owner's ranks.
// Waits for a disk: on the pool.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/contexts/contexts.h"
#include "coordinator/core/state/input.h"

namespace muster::coordinator {

// By name. NOT_FOUND (JC1339) names the first one that the owner (OwnerKey) does not have.
absl::StatusOr<std::map<std::string, std::string>> OpenSecrets(
    Access& access, const std::string& owner_key, const std::vector<std::string>& names);

// Adds the values of the launch's secrets. Without one of them the worker refuses the launch.
void AddSecrets(Access& access, v1::LaunchAttempt* launch);

// Checks what the core cannot know about a submit: that this caller may submit to the job's project, that the project
// has the job's code, and that the caller has the job's secrets and room for more output. `then` is called here, or on
// a pool.
void CheckMayUse(JobStores& stores, JobCode& job_code, Access& access, Process& process,
                 const Caller& caller, const v1::JobSpec& spec,
                 std::function<void(const absl::Status&)> then);

// The same without secrets, for a job that is only being planned.
void CheckMayUseCode(JobStores& stores, JobCode& job_code, Access& access, Process& process,
                     const Caller& caller, const v1::JobSpec& spec,
                     std::function<void(const absl::Status&)> then);

// FAILED_PRECONDITION (JC1330): a coordinator without identities has no key to encrypt them with.
absl::Status NoKeyForSecrets(const Access& access);

}  // namespace muster::coordinator
