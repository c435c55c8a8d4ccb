// What a turn must not leave undone: a consequence of the state that it made, other than of the time that passes until the
// next one is due.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/core/outcome/settle.h"
#include "coordinator/core/state/timers.h"

namespace muster::testing {

// "": it left none. Turns look only at what they touched; this looks at everything.
inline std::string LeftUndone(const coordinator::ClusterState& state, common::Now now) {
  for (const uint64_t id : state.active) {
    if (state.unsettled.contains(id) || coordinator::IsDue(state.due_jobs.At(id), now)) continue;
    const auto event = coordinator::JobConsequence(state, state.jobs.at(id), now);
    if (event.has_value()) return absl::StrCat("of job ", id, ": ", event->ShortDebugString());
  }
  for (const auto& [name, node] : state.nodes) {
    if (coordinator::IsDue(state.due_nodes.At(name), now)) continue;
    if (!coordinator::NodeConsequence(state, node, now).empty() ||
        !coordinator::FencedParts(state, node, now).empty()) {
      return absl::StrCat("of node ", name);
    }
  }
  return "";
}

}  // namespace muster::testing
