// Logs and metrics as written by coordinators before 0.2: raw bytes with an index file, and one
// file of batches per attempt. The first start converts them to segments and records that in
// FORMAT. A crash in between loses nothing: unfinished conversions are repeated.
#pragma once

#include "absl/status/status.h"
#include "coordinator/paths.h"

namespace muster::coordinator {

// Call it before any store is opened. Quick when there is nothing to convert.
absl::Status ConvertOlderFormat(const Paths& paths);

}  // namespace muster::coordinator
