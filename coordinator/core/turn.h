// One turn of the coordinator: the only way its state changes. Used by the control loop, the
// scenarios and the simulator.
//
//   for each input:  Decide → facts → Apply
//                    consequences (settle.h) → Apply, repeated until no rule fires
//   once, at the end of the turn:
//                    Schedule → Apply → consequences, while placement can still change
//   result:          events for the journal, commands for workers, replies, finished records;
//                    the control loop releases them once the journal has the events
//
// Pure: see state.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/core/decide/effects.h"
#include "coordinator/core/state/denial.h"
#include "coordinator/core/state/input.h"
#include "coordinator/core/state/invariants.h"
#include "coordinator/core/state/state.h"

namespace muster::coordinator {

struct Turn {
  std::vector<v1::Event> events;  // to be journaled, in order, with seq set
  std::vector<Command> commands;
  std::vector<Reply> replies;           // one per input, in the same order
  std::vector<v1::JobRecord> finished;  // final records, taken out of the state
  std::vector<uint64_t> changed_jobs;   // live or finished, for watchers; sorted, unique
  std::vector<uint64_t> removed_jobs;
  std::vector<Denial> denials;  // reports that do not belong to their node
  // Candidates for deletion; the shell checks finished jobs too.
  std::vector<std::string> unused_blobs;
};

// Called after each event with the state as it is then, to check it. Debug builds always check it
// (invariants.h).
using AfterEvent = void (*)(const ClusterState&);
#ifdef NDEBUG
inline constexpr AfterEvent kAfterEvent = nullptr;
#else
inline constexpr AfterEvent kAfterEvent = CheckInvariants;
#endif

// Takes up to N inputs and changes `state`.
Turn TakeTurn(ClusterState& state, std::span<const Input> inputs, Now now,
              AfterEvent after_event = kAfterEvent);

// After replay: consequences still outstanding, and placements.
Turn ResumeAfterReplay(ClusterState& state, Now now, AfterEvent after_event = kAfterEvent);

}  // namespace muster::coordinator
