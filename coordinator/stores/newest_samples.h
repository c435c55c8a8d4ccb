// The newest measurements of running jobs, for those who judge them. Any thread; never blocks for
// long: what it hands over is in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/v1/sample.pb.h"

namespace muster::coordinator {

class NewestSamples {
 public:
  virtual ~NewestSamples() = default;
  // Batches of the newest `seconds` of all nodes of the job, in each node in the order of its
  // clock. Empty: nothing was measured, or not lately.
  virtual std::vector<v1::SampleBatch> Newest(uint64_t job, int64_t seconds) const = 0;
};

}  // namespace muster::coordinator
