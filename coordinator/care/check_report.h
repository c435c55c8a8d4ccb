// The output of `check`, which `repair` also prints before it changes anything. One thread.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "coordinator/care/check.h"
#include "coordinator/care/commands.h"

namespace muster::coordinator {

// Runs CheckData and prints each finding as it is found, then the totals.
absl::Status CheckAndPrint(const Paths& paths, const StateCare& state, bool quick,
                           CheckTotals* totals);

// Runs `act` while holding LOCK and returns the exit status.
using Care = std::function<absl::Status(const Paths&, const StateCare&, CheckTotals*)>;
int WithDataLocked(const CareArguments& arguments, const Care& act);

}  // namespace muster::coordinator
