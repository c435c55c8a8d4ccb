// The clock of bench_trainer's sources.
#pragma once

#include <chrono>

// Seconds of a monotonic clock, the same in all processes.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
