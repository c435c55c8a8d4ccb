// Captures the native stacks of all threads of this process: a signal interrupts each thread, and
// the handler walks the thread's stack into preallocated memory. Works for a thread that computes,
// spins or waits in the kernel, but not for one that blocks the signal or sleeps uninterruptibly;
// ThreadStack::problem then gives the reason. Takes no lock that an interrupted thread could hold.
// Without LibTorch.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

struct StackFrame {
  uintptr_t address = 0;
  std::string function;  // demangled; empty: unknown
  std::string module;    // file name without directories; empty: unknown
  uint64_t offset = 0;   // the address in the file's own numbering, as addr2line expects it
};

struct ThreadStack {
  pid_t id = 0;
  std::string name;
  char state = '?';                // from /proc: R running, S sleeping, D uninterruptible, …
  std::string problem;             // why there are no frames
  std::vector<StackFrame> frames;  // innermost first
};

// SIGRTMIN + 6; glibc's own signals are below SIGRTMIN.
int stack_signal();

// Installs the handler; returns false if the program has its own. A signal that does not come from
// capture_stacks writes to the eventfd `request_fd` (-1: does nothing). Further calls only change
// request_fd.
bool install_stack_signal(int request_fd);

// The stacks of all threads except the calling one. One caller at a time. Requires
// install_stack_signal.
std::vector<ThreadStack> capture_stacks();

// Where a thread is, for people, such as "usleep < load_batch < train": starts at the last frame
// inside a system library, with at most `most` functions, without arguments.
std::string place_in_words(const ThreadStack& thread, size_t most = 3);

}  // namespace muster
