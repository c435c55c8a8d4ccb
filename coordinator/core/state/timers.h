// Everything that happens only because time passes. Each timer is defined once, both for the rule
// that waits for it (settle.cc) and for the loop that has to wake up for it (NextDeadlineMonoMs).
// Monotonic milliseconds; nullopt: never, as things stand. Pure.
#pragma once

#include <optional>

#include "coordinator/core/state/state.h"

namespace muster::coordinator {

inline bool IsDue(const std::optional<int64_t>& at_mono_ms, Now now) {
  return at_mono_ms.has_value() && now.mono_ms >= *at_mono_ms;
}

// When a node that is not heard from becomes suspect, and later lost.
std::optional<int64_t> SilentAtMonoMs(const ClusterState& state, const Node& node);

// When the pause before a job's restart ends.
std::optional<int64_t> RestartAtMonoMs(const ClusterState& state, const v1::JobRecord& job);

// For the job's live attempt: when its time limit expires; when the launch timeout of a part that
// has not launched its ranks expires, counted from the newest progress of a node that prepares.
std::optional<int64_t> TimeLimitAtMonoMs(const ClusterState& state, const v1::JobRecord& job,
                                         const v1::Attempt& attempt);
std::optional<int64_t> LaunchLateAtMonoMs(const ClusterState& state, const v1::JobRecord& job,
                                          const v1::Attempt& attempt);
// The first part that has neither launched its ranks nor ended, or null. A part that is not ready comes first,
// because the others wait for it.
const v1::NodePart* UnlaunchedPart(const v1::Attempt& attempt);

// When the node's silence proves that its part of the job's attempt has stopped itself.
std::optional<int64_t> FencedAtMonoMs(const ClusterState& state, const v1::JobRecord& job,
                                      const v1::NodePart& part);

// When an attempt that was asked to give way is stopped at the latest.
std::optional<int64_t> AskedEndsAtMonoMs(const ClusterState& state, const v1::JobRecord& job,
                                         const v1::Attempt& attempt);
std::optional<int64_t> NoticeEndsAtMonoMs(const ClusterState& state, const v1::JobRecord& job,
                                          const v1::Attempt& attempt);

// When waiting jobs are looked at again although nothing has changed.
std::optional<int64_t> LookAgainAtMonoMs(const ClusterState& state);

// The earliest of the timers of the job itself; of the node's silence, and of what is proven by it for the parts on it.
std::optional<int64_t> JobDueMonoMs(const ClusterState& state, const v1::JobRecord& job);
std::optional<int64_t> NodeDueMonoMs(const ClusterState& state, const Node& node);
// Keep ClusterState.due_jobs and due_nodes. A node's contact is not worth it: it only moves what is due away.
void SetJobDue(ClusterState& state, uint64_t job);
void SetNodeDue(ClusterState& state, const std::string& node);

// The earliest of all timers: when the next TickInput is due.
std::optional<int64_t> NextDeadlineMonoMs(const ClusterState& state);

}  // namespace muster::coordinator
