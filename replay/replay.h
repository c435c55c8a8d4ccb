// A trace under some rules. Pure, single-threaded; takes about a millisecond per job.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "replay/cluster.h"
#include "replay/trace.h"

namespace muster::replay {

// Hours, all waits of a job together: before it starts, after it gave way, and what it then repeats.
struct Waits {
  double mean_h = 0, p95_h = 0, max_h = 0;
  double mean_large_h = 0;  // of jobs of 8 devices and more
  double completion_h = 0;  // mean, from submit to end
};
Waits WaitsOf(const std::vector<TracedJob>& jobs, const std::vector<double>& waits_h);

struct Outcome {
  size_t jobs = 0, ended = 0;  // others never fit on these nodes
  Waits waits;
  double use = 0;         // of all devices, from the first submit to the last end: 0 to 1
  uint64_t gave_way = 0;  // how often
  size_t jobs_that_gave_way = 0;
};

// `jobs` in the order of submit_ms. `cluster` is fresh. What the core refuses is returned.
absl::StatusOr<Outcome> Replay(const std::vector<TracedJob>& jobs, Cluster& cluster);

}  // namespace muster::replay
