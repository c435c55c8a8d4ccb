// Copies the registers and the top of the stack of another process's threads, each of which is
// stopped for some microseconds. Unwinding and naming later leave the process alone.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::unwind {

// limit: looks at ranks: threads of a process; others are left out
inline constexpr size_t kThreadsMax = 64;
inline constexpr size_t kStackBytesMax = 256 * 1024;
inline constexpr size_t kRegisters = 17;  // of x86-64, in DWARF's order; the last is the pc

struct CapturedThread {
  pid_t id = 0;
  std::string problem;  // why there are no registers
  std::array<uint64_t, kRegisters> registers{};
  uint64_t stack_address = 0;
  std::string stack;
};

// The process's main thread first. Uses PTRACE_SEIZE: a stopped process stays stopped, and if
// this program dies, the kernel detaches and the process continues.
std::vector<CapturedThread> Capture(pid_t process);

}  // namespace muster::unwind
