// How often workers were refused something that does not belong to their node. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "coordinator/core/state/denial.h"

namespace muster::coordinator {

class DenialCounts {
 public:
  void Add(Denied what) {
    counts_[static_cast<size_t>(what)].fetch_add(1, std::memory_order_relaxed);
  }
  uint64_t Of(Denied what) const {
    return counts_[static_cast<size_t>(what)].load(std::memory_order_relaxed);
  }
  // use("logs", 3) for every kind, including those that never occurred.
  template <typename Use>
  void ForEach(Use use) const {
    static constexpr std::string_view kNames[] = {"registration", "status",  "checkpoint",
                                                  "logs",         "metrics", "samples",
                                                  "diagnosis",    "notify",  "blob"};
    static_assert(std::size(kNames) == kKinds);
    for (size_t kind = 0; kind < kKinds; ++kind)
      use(kNames[kind], counts_[kind].load(std::memory_order_relaxed));
  }

 private:
  static constexpr size_t kKinds = static_cast<size_t>(Denied::kCount);
  std::array<std::atomic<uint64_t>, kKinds> counts_{};
};

}  // namespace muster::coordinator
