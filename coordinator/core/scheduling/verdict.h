// The result of a scheduling pass for one job: it starts, or the reasons that keep it back.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "coordinator/core/state/blockers.h"
#include "muster/v1/job.pb.h"

namespace muster::coordinator {

struct Verdict {
  uint64_t job = 0;
  std::optional<v1::Attempt> start;
  std::vector<Blocker> blockers;  // in the order of the policies; none: it starts
};

}  // namespace muster::coordinator
