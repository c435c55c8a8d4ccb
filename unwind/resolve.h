// Turns captured registers and stacks into named frames, with elfutils' libdwfl. Reads the files
// that the process has mapped: foreign input.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "unwind/capture.h"

namespace muster::unwind {

// limit: looks at ranks: frames of a thread; others are left out
inline constexpr size_t kFramesMax = 64;

struct Frame {
  std::string function;  // demangled; empty: unknown
  std::string module;    // the file's name without its directory
  uint64_t offset = 0;   // in the module
};

// frames[i] belongs to threads[i], innermost first. `problem`: why there are no frames at all.
struct Resolved {
  std::vector<std::vector<Frame>> frames;
  std::string problem;
};
Resolved Resolve(pid_t process, const std::vector<CapturedThread>& threads);

}  // namespace muster::unwind
