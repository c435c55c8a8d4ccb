// In a world of several ranks, a process has one Accelerator at a time: the ranks' calls of two
// would meet in different orders. Any thread.
#pragma once

#include <atomic>

#include "muster/base/errors.h"
#include "muster/base/topology.h"

namespace muster {

class OnlyOne {
 public:
  // Throws Error if there is another one in this process. A process alone may have several.
  explicit OnlyOne(const Topology& topology) : counts_(topology.world_size > 1) {
    if (!counts_ || !is_taken_.exchange(true)) return;
    throw Error("rank " + std::to_string(topology.rank) +
                ": this process has an Accelerator already, and each of the " +
                std::to_string(topology.world_size) +
                " ranks may have one at a time: use the first one, or destroy it before the next "
                "is made");
  }
  ~OnlyOne() {
    if (counts_) is_taken_ = false;
  }
  OnlyOne(const OnlyOne&) = delete;
  OnlyOne& operator=(const OnlyOne&) = delete;

 private:
  inline static std::atomic<bool> is_taken_ = false;
  const bool counts_;
};

}  // namespace muster
