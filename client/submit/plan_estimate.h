// `jobctl plan --memory-estimate`: asks a trainer how much memory a rank needs, and checks whether the devices have
// it. A trainer that offers this prints one line and exits when MUSTER_ESTIMATE=1:
//   {"muster_estimate": 1, "bytes_per_rank": 12345678}
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "muster/v1/job_service.pb.h"

namespace muster::client {

inline constexpr std::chrono::seconds kEstimateWithin{60};

// Bytes per rank, from that line in the program's output. Empty: there is no such line, or its number is not a
// size.
std::optional<uint64_t> FindEstimate(std::string_view output);

// Runs the job's command on this machine as rank 0, with its environment and working directory.
// UNAVAILABLE with the reason: it cannot be started, took longer than `limit` (then it is killed), or
// printed no estimate.
absl::StatusOr<uint64_t> AskTrainer(const v1::JobSpec& spec, uint32_t world_size,
                                    std::chrono::milliseconds limit = kEstimateWithin);

struct MemoryVerdict {
  bool fits = true;
  std::string text;  // "memory: 12 GB per rank; fits: a rank on node1 has 80 GB"
};
// Judges the places that the job would get; without any, only reports what it needs. Pure.
MemoryVerdict JudgeMemory(uint64_t bytes_per_rank, const v1::Attempt& attempt,
                          const v1::ListNodesResponse& nodes);

}  // namespace muster::client
