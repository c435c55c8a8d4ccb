// The journal in one SQLite file, on its own connection and thread. Every checkpoint of the
// file happens there (SQLite 3.40 can corrupt a file whose WAL two connections reset at once); other writers in
// this process take turns with the journal. The journal waits out a lock that another process holds. Never
// called from a gRPC thread except to enqueue in Append.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/sqlite/database/write_turns.h"
#include "coordinator/store_parts/lived_clock.h"
#include "coordinator/stores/journal.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

// The projection that is committed along with the log, in the same file.
enum class Carried { kNothing, kJobs };

// Opens or creates the file, checks it and raises the epoch, durably. `paths` is copied. `clock` is raised to
// the time in the rows and is used only here; null: lived time is not tracked. `turns` is shared by all writers
// of the file.
absl::StatusOr<std::unique_ptr<Journal>> OpenSqliteJournal(
    const Paths& paths, LivedClock* clock = nullptr,
    std::shared_ptr<WriteTurns> turns = std::make_shared<WriteTurns>(),
    Carried carried = Carried::kJobs);

}  // namespace muster::coordinator
