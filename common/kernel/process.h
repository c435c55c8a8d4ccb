// Facts about processes from /proc, and the clocks, for the shim too: no abseil. Any thread; pid facts
// are snapshots. Errors are errno values or empty results, never messages.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::common {

// The name of process 1 in an attempt's PID namespace (shim/process_space.h).
inline constexpr char kFirstProcessName[] = "muster-first";

struct ProcessStat {
  pid_t pid = 0;
  pid_t ppid = 0;
  pid_t pgrp = 0;
  pid_t session = 0;
  // 'Z' and 'X' are dead. A namespace's first process also counts as 'X' while it only waits until other
  // parents have reaped its dead children.
  char state = '?';
  uint64_t start_time =
      0;  // clock ticks since boot: (pid, start_time) identifies a process within one boot
};

// False if there is no such process.
bool ReadProcessStat(pid_t pid, ProcessStat* stat);
// Every process that /proc shows, in pid order. Sets `whole` to false if some could not be
// inspected because no descriptor was free: then absence proves nothing.
std::vector<ProcessStat> ListProcesses(bool* whole = nullptr);
// The direct children of the calling process (its main thread's list), zombies included.
std::vector<pid_t> ListChildren();
// The value of a variable in the environment that the process was started with; empty if it is not
// set or not readable. `whole` as above.
std::string EnvironValue(pid_t pid, std::string_view name, bool* whole = nullptr);

// After a failed call: errno means that no descriptor or no memory was free.
bool NoDescriptor();

int64_t MonotonicMicros();  // CLOCK_BOOTTIME
int64_t WallMicros();

}  // namespace muster::common
