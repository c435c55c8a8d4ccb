// Logs and metrics as coordinators before 0.2 left them: raw bytes with an index beside them, and
// one file of batches per attempt. They become segments once, at the first start; FORMAT then says
// so. A crash on the way loses nothing: what was not finished is done again.
#pragma once

#include "absl/status/status.h"
#include "coordinator/paths.h"

namespace muster::coordinator {

// Before any store is opened. Quick when there is nothing to do.
absl::Status ConvertOlderFormat(const Paths& paths);

}  // namespace muster::coordinator
