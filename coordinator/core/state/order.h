// The order of the queue: higher priority first, then lower number. Places are made only here.
#pragma once

#include <cstdint>

#include "muster/v1/job.pb.h"

namespace muster::coordinator {

struct QueuePlace {
  int32_t priority = 0;
  uint64_t job = 0;
  bool operator<(const QueuePlace& other) const {
    return priority != other.priority ? priority > other.priority : job < other.job;
  }
};

inline QueuePlace PlaceOf(const v1::JobRecord& job) {
  return {.priority = job.spec().priority(), .job = job.id()};
}

}  // namespace muster::coordinator
