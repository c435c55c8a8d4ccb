// Output and metrics that a data directory has of before there was an object store, on their way into that.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "muster/v1/job.pb.h"

namespace muster::coordinator {

class FileMove {
 public:
  virtual ~FileMove() = default;
  // Those that have some in files. May be slow.
  virtual std::vector<uint64_t> Jobs() const = 0;
  // Of a job that has ended: afterwards all is in the object store. May take long; all can be read at any moment.
  // FAILED_PRECONDITION: it stays where it is. Other errors pass.
  virtual absl::Status Move(const v1::JobRecord& job) = 0;
};

}  // namespace muster::coordinator
