// Explains in a sentence why a queued job has not started: the text form of a verdict
// (scheduling/verdict.h).
#pragma once

#include <string>

#include "coordinator/core/forecast.h"
#include "coordinator/core/scheduling/pass.h"
#include "coordinator/core/state/state.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace muster::coordinator {

using Details = google::protobuf::RepeatedPtrField<std::string>;
// `pass`: after Run, over `state`. Adds lines to `details` that help to understand the reason.
std::string WhyQueued(Pass& pass, const SchedulingState& state, const v1::JobRecord& job, Now now,
                      Details* details);

// The whole answer about a queued job of `state`, with its expected start if a forecast has it.
v1::WhyResponse WhyWaiting(const SchedulingState& state, const v1::JobRecord& job,
                           const StartsByJob& starts, Now now);

}  // namespace muster::coordinator
