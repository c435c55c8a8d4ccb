// FORMAT in the data directory: the number of the layout of its logs and metrics, which every start
// compares before it opens them, so that nothing is read as what it is not.
#pragma once

#include "absl/status/status.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

// Call it before any store is opened; writes the file where there is none. FAILED_PRECONDITION: it
// names another format.
absl::Status CheckFormat(const Paths& paths);

}  // namespace muster::coordinator
