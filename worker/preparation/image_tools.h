// Runs the tools that fetch and unpack images. They read untrusted data, so their disk use is limited,
// and so is the time without progress. A thread that may block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/preparation/progress.h"

namespace muster::worker {

struct ToolRun {
  std::vector<std::string> words = {};  // the first is its path
  size_t output_max = 0;                // bytes of output to keep; 0: enough for error messages
  int timeout_ms = 0;                   // 0: as long as a large image may take
  std::string grows = {};               // the directory that it fills …
  uint64_t bytes_max = 0;               // … and how large it may grow
  std::string says = {};                // the progress text, without the size of that directory
};
struct ToolEnd {
  // CANCELLED: no attempt waits for it any more. NOT_FOUND: the registry refuses, and would again.
  // RESOURCE_EXHAUSTED: the disk is full, or the limit reached. UNAVAILABLE: anything else.
  absl::Status status;
  std::string out;
  bool exited = false;  // not killed; whatever its code
};

ToolEnd RunTool(const ToolRun& run, const Progress& progress);

// The disk space of all files below. Files that cannot be inspected count as 0.
uint64_t TreeBytes(const std::string& directory);

}  // namespace muster::worker
