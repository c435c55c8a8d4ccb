// How many ranks on which devices: parsed from user input, completed with defaults, and described.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace muster::v1 {
class DeviceConstraint;
class RankLimits;
class Shape;
}  // namespace muster::v1

namespace muster::job {

// Parses "gpu", "h100", "npu>=64GB" or "gpu:8" into the constraint. The number after `:` is the
// total for the job and goes to `*total`, which is unchanged without one. Errors: JC1104.
absl::Status ParseDevices(std::string_view text, v1::DeviceConstraint* device, uint32_t* total);

// Parse "2" or "0.5", and "512MiB" or "4GB", into the limits of each rank. Errors: JC1108.
absl::Status ParseCpus(std::string_view text, v1::RankLimits* limits);
absl::Status ParseRankMemory(std::string_view text, v1::RankLimits* limits);

// Fills in defaults: with ranks per node, one node; otherwise one rank per node, or one in all. A
// nonzero `total` of devices determines the number of ranks if that is missing, otherwise the
// devices per rank. Errors: JC1104 if it cannot be divided evenly.
absl::Status Complete(uint32_t total, v1::Shape* shape);

// The requested shape in ranks: "8 ranks on 2 nodes", "2 nodes × 4 ranks", "1 to 4 nodes × 8
// ranks".
std::string DescribeRanks(const v1::Shape& shape);
// "at most 2 cpus and 512 MiB of memory per rank"; empty without limits.
std::string DescribeLimits(const v1::RankLimits& limits);
// The same with the devices and limits: "2 nodes × 4 ranks, 2 gpu (h100) each, at most 2 cpus per
// rank".
std::string DescribeShape(const v1::Shape& shape);
// The devices of `kind` that the shape needs: "8 gpu", "2 nodes with 4 gpu each of model h100".
std::string DescribeDemand(const v1::Shape& shape, std::string_view kind);
// The same for an attempt: "3 ranks on 2 nodes".
std::string DescribeWorld(uint64_t ranks, uint64_t nodes);

}  // namespace muster::job
