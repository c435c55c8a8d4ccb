// The facts behind a job's `notify`: findings that appeared for the first time, and deliveries
// whose outcome a person may want to know. Pure.
#pragma once

#include <string_view>

#include "coordinator/core/decide/decide.h"

namespace muster::coordinator {

// Findings that one job reports through `notify`, over all its attempts; later ones are only shown.
// limit: notify: findings told of a job; later ones are only shown
inline constexpr int kNoticedMax = 32;

bool WantsFindings(const v1::JobSpec& spec);
bool IsNoticed(const v1::JobRecord& job, std::string_view code, uint32_t attempt);

// Only for a live job, and each code once per attempt.
Decision DecideOn(const ClusterState& state, const FindingInput& input, Now now);
Decision DecideOn(const ClusterState&, const NotifiedInput& input, Now now);

}  // namespace muster::coordinator
