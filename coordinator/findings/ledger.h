// Where a job's device time went: wall time × devices, divided without a remainder. Pure.
#pragma once

#include "coordinator/findings/evidence.h"
#include "muster/v1/finding.pb.h"

namespace muster::coordinator {

// Computed from the record's times, the steps that the trainer reported and their "time/…" metrics.
// The coordinator's clock and the trainers' may differ: the trainers' times are clamped to the
// attempt's. A step counts once: a step that a later attempt repeated is "repeated". Time that
// nothing accounts for is "unknown", never guessed.
v1::Ledger MakeLedger(const Evidence& evidence);

}  // namespace muster::coordinator
