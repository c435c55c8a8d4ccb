// The largest batch size that fits into memory, found by trying, with all ranks agreeing on it.
//
// Source: accelerate/utils/memory.py (Accelerate 1.15), whose ranks each decide alone: the one that
// ran out of memory goes on smaller and the others wait for it in a collective of another shape.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>

namespace muster {

struct ExecutableBatchSizeOptions {
  int64_t starting_batch_size = 128;  // at least 1, equal on all ranks
  // The next smaller size to try, equal on all ranks. Default: 0.9 times the last, rounded down.
  std::function<int64_t(int64_t batch_size)> reduce_batch_size = nullptr;
  // Collective: true on all ranks when it is true on any. Empty: this process alone decides.
  std::function<bool(bool own)> any_rank = nullptr;
};

// Calls fn(batch_size) with smaller and smaller sizes until it succeeds on all ranks, and returns
// the size that did. When any rank runs out of memory (see is_out_of_memory), all of them drop what
// their device's allocator holds in reserve and try the next size. Any other exception of fn leaves
// at once on its rank, and as CommunicationError on the others. Throws muster::Error when size 0 is
// reached, std::invalid_argument when starting_batch_size is below 1.
//
// Collective when any_rank is given. fn may use collectives only if every rank gets to the end of
// them or none starts: a rank that runs out of memory between two all-reduces leaves the others
// waiting in the second until its timeout. Try forward and backward inside no_sync.
int64_t find_executable_batch_size(const std::function<void(int64_t batch_size)>& fn,
                                   const ExecutableBatchSizeOptions& options = {});

// Whether an exception says that memory ran out: c10::OutOfMemoryError, std::bad_alloc, or an error
// with one of the texts that Accelerate looks for (LibTorch's CPU allocator throws a plain
// c10::Error; cuDNN says CUDNN_STATUS_NOT_SUPPORTED).
bool is_out_of_memory(const std::exception& error);

// Gives back what the current device's caching allocator holds unused; nothing on the CPU.
void clear_device_cache();

}  // namespace muster
