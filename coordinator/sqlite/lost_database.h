// Makes sure that a data directory that has lost its database is not taken for a new one.
#pragma once

#include "absl/status/status.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

// FAILED_PRECONDITION when muster.db is missing or empty beside jobs' logs, metrics or checkpoint
// files: a coordinator that started here would number its jobs from 1 again, among the old ones'
// files. Reads names only, and stops at the first.
absl::Status RefuseLostDatabase(const Paths& paths);

}  // namespace muster::coordinator
