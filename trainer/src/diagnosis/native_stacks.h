// The native stacks of all threads of this process, taken from inside: each thread is interrupted
// by a signal whose handler walks its own stack into memory that was set aside. Works for a thread
// that computes, spins or waits in the kernel; not for one that blocks the signal or sleeps
// uninterruptibly, which is said. Takes no lock that an interrupted thread could hold. Without
// LibTorch.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

struct StackFrame {
  uintptr_t address = 0;
  std::string function;  // demangled; empty: not known
  std::string module;    // the file's name without its folders; empty: not known
  uint64_t offset = 0;   // of the address in the file's own numbering, as addr2line wants it
};

struct ThreadStack {
  pid_t id = 0;
  std::string name;
  char state = '?';                // of /proc: R running, S sleeping, D uninterruptible, …
  std::string problem;             // why there are no frames
  std::vector<StackFrame> frames;  // innermost first
};

// SIGRTMIN + 6: glibc's own signals lie below SIGRTMIN.
int stack_signal();

// Installs the handler unless the program has one of its own: then false. A signal that does not
// come from capture_stacks writes to the eventfd `request_fd` (-1: does nothing). Again: only
// changes request_fd.
bool install_stack_signal(int request_fd);

// Of all threads but the calling one. One caller at a time. Needs install_stack_signal.
std::vector<ThreadStack> capture_stacks();

// Where a thread is, for people: "usleep < load_batch < train": from the last frame inside a system
// library on, at most `most` functions without their arguments.
std::string place_in_words(const ThreadStack& thread, size_t most = 3);

}  // namespace muster
