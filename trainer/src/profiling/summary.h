// From recorded events to a ProfileSummary. Pure, without LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/profiling/profiler.h"

namespace muster {

struct ProfiledEvent {
  // An operator computes, unless its name is one of communication or waiting; an annotation only
  // says what the operators below it are for; a kernel ran on a device.
  enum class Kind { operation, annotation, kernel };
  std::string name;
  int64_t begin = 0;  // nanoseconds
  int64_t end = 0;
  uint64_t thread = 0;      // where it began; of a kernel: its stream
  bool same_thread = true;  // it ended where it began, so that it nests with its thread's others
  Kind kind = Kind::operation;
};

// Names of LibTorch's and this library's collectives: "gloo:…", "shared_memory:…", "nccl:…"; of
// NCCL's kernels: "nccl…"; of HCCL's: "hcom_…".
bool is_communication(const ProfiledEvent& event);

// Fills in overlap, operators and communication. Compute is what a thread's operators take without
// the communication, its dispatch ("c10d::…") and the waiting ("wait:…") inside them; where there
// are kernels, they alone count.
void summarize(const std::vector<ProfiledEvent>& events, int operators_kept,
               ProfileSummary& summary);

// The parts of `from` outside `without`, in order. Any order, overlaps allowed.
std::vector<TimeInterval> without_intervals(std::vector<TimeInterval> from,
                                            std::vector<TimeInterval> without);
// The same points in time, in order and without overlaps.
std::vector<TimeInterval> united(std::vector<TimeInterval> intervals);

}  // namespace muster
