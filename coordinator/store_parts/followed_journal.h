// A journal with projections that follow it: each takes a turn once the log has it, on a thread of
// its own, and only then the turn counts as durable, so that nobody finds less in a projection than
// he has been told. Snapshots wait for the projections, too: what one of them has not taken can still
// be replayed after a crash.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/stores/journal.h"
#include "coordinator/stores/projection.h"

namespace muster::coordinator {

// Gives each projection the turns that it lacks, before anybody can ask it. DATA_LOSS: it has seen
// events that the log lacks, or lacks some that the log does not keep any more. `projections` outlive
// the journal.
absl::StatusOr<std::unique_ptr<Journal>> FollowJournal(std::unique_ptr<Journal> log,
                                                       std::vector<Projection*> projections);

}  // namespace muster::coordinator
