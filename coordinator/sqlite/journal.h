// The journal in one SQLite file, on its own connection and thread. Every checkpoint of the
// file happens there (SQLite 3.40 can corrupt a file whose WAL two connections reset at once); what
// else this process writes into it takes turns with the journal. A lock that another process holds is
// waited out. Never called from a gRPC thread except to enqueue in Append.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "coordinator/sqlite/write_turns.h"
#include "coordinator/store_parts/lived_clock.h"
#include "coordinator/stores/journal.h"
#include "coordinator/stores/paths.h"

namespace muster::coordinator {

// Which projection is committed along with the log, in the same file.
enum class Carried { kNothing, kJobs };

// Opens or creates the file, checks it and raises the epoch, durably. `paths` is copied. `clock` is
// raised to the time in the rows and is used only here; null: lived time is not tracked. `turns`: of
// all that write into the file.
absl::StatusOr<std::unique_ptr<Journal>> OpenSqliteJournal(
    const Paths& paths, LivedClock* clock = nullptr,
    std::shared_ptr<WriteTurns> turns = std::make_shared<WriteTurns>(),
    Carried carried = Carried::kJobs);

}  // namespace muster::coordinator
