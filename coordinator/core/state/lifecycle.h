// The job's state machine as a table: every legal transition, and when it happens. Apply checks
// each JobStateChanged against it, including on replay; docs/lifecycle.md is generated from it.
#pragma once

#include <span>

#include "muster/v1/job.pb.h"

namespace muster::coordinator {

struct JobEdge {
  v1::JobState from;
  v1::JobState to;
  const char* when;
};

std::span<const JobEdge> JobEdges();
bool IsLegalEdge(v1::JobState from, v1::JobState to);

// The attempt was stopped so that the job continues later: for another job, a drained node, or a person.
bool WasAskedToLeave(v1::StopCause cause);

}  // namespace muster::coordinator
