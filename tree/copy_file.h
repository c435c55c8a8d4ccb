// Copies the content of a file into another, sharing disk blocks if the file system supports it
// (reflinks). One thread; blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::tree {

// Copies many files between one pair of file systems; remembers what these do not support.
class FileCopier {
 public:
  // Copies the first `size` bytes of `from` into `to`, which is empty. True: blocks are shared, no bytes were
  // copied. FAILED_PRECONDITION: `from` is shorter.
  absl::StatusOr<bool> Copy(int from, int to, uint64_t size);

 private:
  bool Share(int from, int to);
  absl::Status CopyBytes(int from, int to, uint64_t size);

  bool may_share_ = true;
  bool may_copy_range_ = true;
  std::vector<char> buffer_;
};

}  // namespace muster::tree
