// How the process's descriptors are divided, so that no part can starve another. The remainder is
// for the database, gRPC itself and files that are open briefly.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace muster::coordinator {

struct DescriptorShares {
  size_t connections = 0;      // accepted, waiting or served
  size_t log_streams = 0;      // open at once, with two descriptors each
  size_t metric_segments = 0;  // open at once
};

// Pure. `limit` is RLIMIT_NOFILE.
DescriptorShares ShareDescriptors(uint64_t limit);
// For this process, with its current limit.
DescriptorShares ShareDescriptors();

// When a reader that found no descriptor free tries again.
constexpr std::chrono::milliseconds kShortageRetry{200};

}  // namespace muster::coordinator
