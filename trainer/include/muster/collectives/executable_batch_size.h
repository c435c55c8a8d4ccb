// The largest batch size that fits into memory, found by trial, with all ranks agreeing on it.
//
// Source: accelerate/utils/memory.py (Accelerate 1.15), where each rank decides alone: a rank that
// runs out of memory continues with a smaller size, while the others wait for it in a collective of
// a different shape.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>

namespace muster {

struct ExecutableBatchSizeOptions {
  int64_t starting_batch_size = 128;  // at least 1, equal on all ranks
  // The next smaller size to try, equal on all ranks. Default: 0.9 times the last, rounded down.
  std::function<int64_t(int64_t batch_size)> reduce_batch_size = nullptr;
  // Collective: returns true on all ranks if `own` is true on any. Empty: this process decides
  // alone.
  std::function<bool(bool own)> any_rank = nullptr;
};

// Calls fn(batch_size) with decreasing sizes until it succeeds on all ranks, and returns that size.
// If any rank runs out of memory (see is_out_of_memory), all ranks empty their device caches and
// try the next size. Any other exception of fn propagates at once on its rank, and as
// CommunicationError on the others. Throws muster::Error if size 0 is reached,
// std::invalid_argument if starting_batch_size is below 1.
//
// Collective if any_rank is given. fn may use collectives only if either every rank completes them
// or none starts: a rank that runs out of memory between two all-reduces leaves the others waiting
// in the second until it times out. Run forward and backward inside no_sync.
int64_t find_executable_batch_size(const std::function<void(int64_t batch_size)>& fn,
                                   const ExecutableBatchSizeOptions& options = {});

// Whether an exception means out of memory: c10::OutOfMemoryError, std::bad_alloc, or an error with
// one of the messages that Accelerate looks for (LibTorch's CPU allocator throws a plain
// c10::Error; cuDNN reports CUDNN_STATUS_NOT_SUPPORTED).
bool is_out_of_memory(const std::exception& error);

// Releases the unused memory that the current device's caching allocator holds; does nothing on the
// CPU.
void clear_device_cache();

}  // namespace muster
