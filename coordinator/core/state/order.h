// The order of the queue: jobs for which others give way first, as their devices are theirs; then urgent ones, then higher
// priority, then those that gave way themselves, then lower number. Places are made only here.
#pragma once

#include <cstdint>

#include "muster/v1/job.pb.h"

namespace muster::coordinator {

struct QueuePlace {
  int32_t priority = 0;
  uint64_t job = 0;
  bool urgent = false;
  bool claims = false;
  bool gave_way = false;
  // Before all jobs of all projects.
  bool IsAhead() const { return claims || urgent; }
  bool operator<(const QueuePlace& other) const {
    if (claims != other.claims) return claims;
    if (urgent != other.urgent) return urgent;
    if (priority != other.priority) return priority > other.priority;
    return gave_way != other.gave_way ? gave_way : job < other.job;
  }
};

inline QueuePlace PlaceOf(const v1::JobRecord& job) {
  return {.priority = job.spec().priority(),
          .job = job.id(),
          .urgent = job.urgent(),
          .claims = job.claims(),
          .gave_way = job.gave_way()};
}

}  // namespace muster::coordinator
