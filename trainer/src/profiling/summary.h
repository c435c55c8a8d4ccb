// Computes a ProfileSummary from recorded events. Pure; without LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/profiling/profiler.h"

namespace muster {

struct ProfiledEvent {
  // operation: compute, unless its name is one of communication or waiting. annotation: only labels
  // the operators below it. kernel: ran on a device.
  enum class Kind { operation, annotation, kernel };
  std::string name;
  int64_t begin = 0;  // nanoseconds
  int64_t end = 0;
  uint64_t thread = 0;      // where it began; for a kernel, its stream
  bool same_thread = true;  // it ended on the thread where it began, so it nests with the others
  Kind kind = Kind::operation;
};

// Names of LibTorch's and this library's collectives: "gloo:…", "shared_memory:…", "nccl:…"; of
// NCCL's kernels: "nccl…"; of HCCL's: "hcom_…".
bool is_communication(const ProfiledEvent& event);

// Fills in overlap, operators and communication. Compute is the time of a thread's operators,
// without the communication, its dispatch ("c10d::…") and waiting ("wait:…") inside them; if there
// are kernels, only they count.
void summarize(const std::vector<ProfiledEvent>& events, int operators_kept,
               ProfileSummary& summary);

// The parts of `from` outside `without`, in order. Inputs may be unsorted and overlap.
std::vector<TimeInterval> without_intervals(std::vector<TimeInterval> from,
                                            std::vector<TimeInterval> without);
// Merges intervals into sorted, disjoint ones.
std::vector<TimeInterval> united(std::vector<TimeInterval> intervals);

}  // namespace muster
