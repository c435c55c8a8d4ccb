// Limits the memory of this process, to simulate a small device. No LibTorch.
#pragma once

#include <cstdint>
#include <exception>

namespace examples {

// While it lives, this process may allocate this many MiB more than it had before (RLIMIT_DATA: all
// private writable memory, even if not yet used). Further allocations fail with std::bad_alloc or
// LibTorch's equivalent. Destroy it before objects that must clean up after that. Throws
// std::runtime_error if the system does not allow it.
class MemoryLimit {
 public:
  explicit MemoryLimit(int64_t mebibytes);
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
};

bool is_out_of_memory(const std::exception& error);

}  // namespace examples
