// Validates `notify`: whom a job tells about its end and its findings. Pure.
#pragma once

#include "absl/status/status.h"

namespace muster::v1 {
class JobSpec;
}

namespace muster::job {

// limit: notify: entries of a job; refused
inline constexpr int kNotifyMax = 8;

// Errors: JC1108.
absl::Status CheckNotify(const v1::JobSpec& spec);

// Leaves only the server of each webhook's address: anyone who knows the path can use it.
void HideWebhooks(v1::JobSpec& spec);

}  // namespace muster::job
