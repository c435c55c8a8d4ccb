// The journal in one SQLite file. Owns the only read-write connection and the journal thread; every
// write and every checkpoint of the file happens there (SQLite 3.40 can corrupt a file whose WAL
// two connections reset at once). Never called from a gRPC thread except to enqueue in Append.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/lived_clock.h"
#include "coordinator/paths.h"
#include "coordinator/stores/journal.h"

namespace muster::coordinator {

// Opens or creates the file, checks it and raises the epoch, durably. `paths` is copied. `clock` is
// raised to the time in the rows and is used only here; null: lived time is not tracked.
absl::StatusOr<std::unique_ptr<Journal>> OpenSqliteJournal(const Paths& paths,
                                                           LivedClock* clock = nullptr);

}  // namespace muster::coordinator
