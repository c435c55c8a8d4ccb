// Ownership: a job is changed by its owner or an operator, and the values of its environment are shown
// only to its owner. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "coordinator/core/state/input.h"
#include "muster/v1/job.pb.h"

namespace muster::coordinator {

// Replaces a hidden value.
inline constexpr std::string_view kHiddenValue = "(hidden)";

// A person who has the name of a removed person does not own that person's jobs.
bool IsOwner(const Caller& caller, const v1::JobRecord& job);
// PERMISSION_DENIED (JC1320) unless the caller owns the job or is an operator.
absl::Status CheckMayChange(const Caller& caller, const v1::JobRecord& job);
// PERMISSION_DENIED (JC1320) unless the caller owns the job: a command in it sees the values of its
// environment. Where nothing tells people apart (a plaintext port), everyone may; so may root and the
// coordinator's account on this machine, which can read those values anyway.
absl::Status CheckMayRunCommands(const Caller& caller, uint32_t own_uid, const v1::JobRecord& job);
// Hides what only the owner may see: values of the environment, and the paths of webhooks.
void HideFromOthers(const Caller& caller, v1::JobRecord& job);
// Hides what only its project may see of a job's code: everything except its size.
void HideCode(v1::JobRecord& job);

}  // namespace muster::coordinator
