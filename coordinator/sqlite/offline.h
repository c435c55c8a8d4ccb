// Accesses the database without starting a coordinator: reads it whole, or copies it while a
// coordinator serves. Opens it read-only except in AdvanceNumbers; never checkpoints its log. One
// thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/base/damage.h"
#include "coordinator/stores/paths.h"
#include "coordinator/stores/state_care.h"

namespace muster::coordinator {

// Reads everything that a start reads, and the finished jobs' rows. Returns the first damage as the
// error.
absl::StatusOr<StateContents> ReadContents(const std::string& path);

// Reports what SQLite finds wrong with the file: pages, trees, indexes; with `quick`, without the
// indexes.
absl::Status CheckPages(const std::string& path, bool quick, const OnDamage& found);

// A consistent copy in one file, not synced. RESOURCE_EXHAUSTED: no room at `to`.
absl::Status CopyDatabase(const std::string& from, const std::string& to);

// Call it on the only copy of a restored database, before its first start.
absl::Status AdvanceNumbers(const Paths& paths, const Advance& advance);

}  // namespace muster::coordinator
