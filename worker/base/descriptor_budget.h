// How the worker's descriptors are used. Each use has its share of RLIMIT_NOFILE, so that none can
// take what another needs; the remainder is for gRPC, shims, ports and files that are open briefly.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cstddef>

namespace muster::worker {

struct DescriptorBudget {
  size_t streams = 0;       // ranks' output being read: two files each
  size_t metric_files = 0;  // batches of one rank each
  size_t connections = 0;   // of trainers
  // limit: checkpoints: files of one attempt that its node keeps open for other nodes; these fetch the others from the store
  size_t served_files = 0;
};

inline DescriptorBudget BudgetFor(size_t limit) {
  const size_t eighth = limit / 8;
  return {std::clamp<size_t>(eighth, 4, 1'024), std::clamp<size_t>(eighth, 4, 1'024),
          std::clamp<size_t>(limit / 4, 8, 4'096), std::clamp<size_t>(limit / 32, 4, 256)};
}

inline DescriptorBudget BudgetOfThisProcess() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return BudgetFor(1'024);
  return BudgetFor(static_cast<size_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 20)));
}

}  // namespace muster::worker
