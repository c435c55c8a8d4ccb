// Code that no recorded job has any more, and objects that no code uses.
#pragma once

#include <chrono>

#include "coordinator/contexts/contexts.h"

namespace muster::coordinator {

// What nothing uses is kept so long after its last use, in the coordinator's lived time. Longer than
// a day by what a use may be recorded late: when it is seen again, or remembered as seen.
inline constexpr std::chrono::hours kUnusedCodeKept{26};

// A bounded part of it, the least recently used first.
void CollectCode(Jobs& jobs, JobStores& stores, JobCode& job_code, Process& process);

}  // namespace muster::coordinator
