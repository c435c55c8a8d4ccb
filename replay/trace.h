// Jobs as they were submitted once. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::replay {

struct TracedJob {
  int64_t submit_ms = 0;    // since the first one, or any other moment before it
  int64_t duration_ms = 0;  // how long it runs, in all
  int64_t estimate_ms = 0;  // 0: none
  uint32_t devices = 1;     // beyond one node: whole nodes
  int32_t priority = 0;
  std::string project;  // empty: default
};

enum class Estimates { kNone, kTrue, kGiven };

// limit: replay: jobs of a trace; refused (JC1004)
inline constexpr size_t kTracedJobsMax = 1'000'000;

// CSV with a header: submit_s and duration_s (seconds), devices (or gpus, or procs), and perhaps project (or vc), priority
// and estimate_s; other columns are skipped. In the order of submit_s afterwards. INVALID_ARGUMENT names the line.
absl::StatusOr<std::vector<TracedJob>> ParseTrace(const std::string& csv, Estimates estimates);

}  // namespace muster::replay
