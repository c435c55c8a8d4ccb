// A limit on the memory of this process, to see what a small device would do. No LibTorch.
#pragma once

#include <cstdint>
#include <exception>

namespace examples {

// While it lives this process may take so many MiB more than it had before (RLIMIT_DATA: everything
// private and writable, also what is not touched yet). What asks for more gets std::bad_alloc, or
// LibTorch's error that says so. To be gone before what must clean up after that. Throws
// std::runtime_error when the system refuses.
class MemoryLimit {
 public:
  explicit MemoryLimit(int64_t mebibytes);
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
};

bool is_out_of_memory(const std::exception& error);

}  // namespace examples
