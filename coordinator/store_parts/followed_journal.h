// A journal with projections that follow it. On a separate thread, each projection takes a turn once the
// log has it, and only then does the turn count as durable, so that no caller finds less in a projection
// than it was told. Snapshots wait for the projections, too: what one of them has not taken can still be
// replayed after a crash.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/stores/journal.h"
#include "coordinator/stores/projection.h"

namespace muster::coordinator {

// Gives each projection the turns that it lacks, before it can be queried. DATA_LOSS: it has events that
// the log lacks, or lacks some that the log no longer keeps. `projections` outlive the journal.
absl::StatusOr<std::unique_ptr<Journal>> FollowJournal(std::unique_ptr<Journal> log,
                                                       std::vector<Projection*> projections);

}  // namespace muster::coordinator
