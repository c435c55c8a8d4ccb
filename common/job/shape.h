// How many ranks, on what: read from people's words, completed with defaults, and described. Pure;
// any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace muster::v1 {
class DeviceConstraint;
class Shape;
}  // namespace muster::v1

namespace muster::job {

// "gpu", "h100", "npu>=64GB", "gpu:8" into the constraint; the number behind `:` is the total of
// the job and goes to `*total`, which stays as it is without one. Errors: JC1104.
absl::Status ParseDevices(std::string_view text, v1::DeviceConstraint* device, uint32_t* total);

// What nobody said: one node for ranks per node, one rank for each node or one at all. A `total` of
// devices that is not 0 gives the number of ranks when that is missing, else what each rank gets.
// Errors: JC1104 when it cannot be shared evenly.
absl::Status Complete(uint32_t total, v1::Shape* shape);

// What was asked for, in ranks: "8 ranks on 2 nodes", "2 nodes × 4 ranks", "1 to 4 nodes × 8
// ranks".
std::string DescribeRanks(const v1::Shape& shape);
// The same with the devices: "2 nodes × 4 ranks, 2 gpu (h100) each".
std::string DescribeShape(const v1::Shape& shape);
// What it takes, in devices of `kind`: "8 gpu", "2 nodes with 4 gpu each of model h100".
std::string DescribeDemand(const v1::Shape& shape, std::string_view kind);
// Of an attempt: "3 ranks on 2 nodes".
std::string DescribeWorld(uint64_t ranks, uint64_t nodes);

}  // namespace muster::job
