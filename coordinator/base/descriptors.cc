#include "coordinator/base/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

namespace muster::coordinator {
namespace {

// The database, the log, locks, gRPC's pollers, the listening sockets.
constexpr uint64_t kOwn = 36;
constexpr uint64_t kLeast = 16;
constexpr uint64_t kUnlimited = 1 << 20;
// limit: connections: files of each kind that stay open, of an eighth of the descriptor limit; the least recently
// used is closed and reopened later
constexpr uint64_t kFilesMax = 256;  // more open files gain nothing

}  // namespace

DescriptorShares ShareDescriptors(uint64_t limit) {
  const uint64_t known = std::min(limit, kUnlimited);
  const uint64_t shared = std::max(known, kOwn + kLeast) - kOwn;
  return {.connections = static_cast<size_t>(shared / 2),
          .log_streams = static_cast<size_t>(std::clamp<uint64_t>(shared / 8, 2, kFilesMax)),
          .metric_segments = static_cast<size_t>(std::clamp<uint64_t>(shared / 8, 2, kFilesMax))};
}

DescriptorShares ShareDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return ShareDescriptors(0);
  return ShareDescriptors(limit.rlim_cur == RLIM_INFINITY ? kUnlimited : limit.rlim_cur);
}

}  // namespace muster::coordinator
