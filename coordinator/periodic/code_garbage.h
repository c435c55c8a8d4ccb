// Removes code that no recorded job has any more, and objects that no code uses.
#pragma once

#include <chrono>

#include "coordinator/contexts/contexts.h"

namespace muster::coordinator {

// How long unused objects are kept after their last use, in the coordinator's lived time. Longer than a day,
// because a use may be recorded late: when it is seen again, or remembered as seen.
inline constexpr std::chrono::hours kUnusedCodeKept{26};

// Removes a bounded part of it, the least recently used first.
void CollectCode(Jobs& jobs, JobStores& stores, JobCode& job_code, Process& process);

}  // namespace muster::coordinator
