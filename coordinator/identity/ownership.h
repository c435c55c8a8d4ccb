// Whose things are whose: a job is changed by its owner or an operator, and the values of its
// environment are shown to its owner alone. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "coordinator/core/state/input.h"
#include "muster/v1/job.pb.h"

namespace muster::coordinator {

// What stands where a value is hidden.
inline constexpr std::string_view kHiddenValue = "(hidden)";

// A person who has the name of another who was removed is not the owner of that one's jobs.
bool IsOwner(const Caller& caller, const v1::JobRecord& job);
// PERMISSION_DENIED (JC1320) unless the caller owns the job or is an operator.
absl::Status CheckMayChange(const Caller& caller, const v1::JobRecord& job);
// PERMISSION_DENIED (JC1320) unless the caller owns the job: a command in it sees the values of its
// environment. Where there is nothing to tell people apart by (a plaintext port), everybody may; so
// may root and the coordinator's account on this machine, which can read those values anyway.
absl::Status CheckMayRunCommands(const Caller& caller, uint32_t own_uid, const v1::JobRecord& job);
// Hides what others than the owner may not see: values of the environment, and the paths of
// webhooks.
void HideFromOthers(const Caller& caller, v1::JobRecord& job);
// Hides what nobody outside its project may see of a job's code: all but its size.
void HideCode(v1::JobRecord& job);

}  // namespace muster::coordinator
