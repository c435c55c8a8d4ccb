// What a rank's process is doing, seen from outside: for ranks that do not answer themselves. Blocks
// for at most a little over two seconds; a job's thread. The process continues unharmed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "worker/confinement/rank_account.h"

namespace muster::worker {

struct LookTarget {
  uint32_t rank = 0;
  pid_t pid = 0;
  uint64_t start_time = 0;  // another process may have the pid by now
  std::string reason;
};

// A rank's record (docs/profiling.md), at most 64 KiB; empty if the process is gone. The tools that read its
// memory and files run as the ranks' account, if the node lets that account trace its own processes.
std::string LookFromOutside(const LookTarget& target, const RankAccount& account);

}  // namespace muster::worker
