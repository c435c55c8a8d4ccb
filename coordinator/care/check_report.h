// What `check` prints, and `repair` before it changes anything. One thread.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "coordinator/care/check.h"
#include "coordinator/care/commands.h"

namespace muster::coordinator {

// Findings as they come, then the totals.
absl::Status CheckAndPrint(const Paths& paths, bool quick, CheckTotals* totals);

// Holds LOCK while `act` works; the exit status.
int WithDataLocked(const CareArguments& arguments,
                   const std::function<absl::Status(const Paths&, CheckTotals*)>& act);

}  // namespace muster::coordinator
