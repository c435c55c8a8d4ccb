// FORMAT in the data directory: the version number of the layout of its logs and metrics. Every
// start compares it before opening them, so that no file is misread.
#pragma once

#include "absl/status/status.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

// Call it before any store is opened; writes the file if it is missing. FAILED_PRECONDITION: it
// names another format.
absl::Status CheckFormat(const Paths& paths);

}  // namespace muster::coordinator
