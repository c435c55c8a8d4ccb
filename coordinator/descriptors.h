// How the process's descriptors are shared out, so that no part can take those of another. What is
// not shared out stays for the database, gRPC itself and files that are open for a moment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster::coordinator {

struct DescriptorShares {
  size_t connections = 0;      // that are accepted, waiting or served
  size_t log_streams = 0;      // open at once, with two descriptors each
  size_t metric_segments = 0;  // open at once
};

// Pure. `limit` is RLIMIT_NOFILE.
DescriptorShares ShareDescriptors(uint64_t limit);
// Of this process, as it is now.
DescriptorShares ShareDescriptors();

}  // namespace muster::coordinator
