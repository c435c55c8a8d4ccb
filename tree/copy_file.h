// The content of a file into another, sharing disk blocks where the file system can (reflinks). One
// thread; blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::tree {

// For many files of one pair of file systems: it remembers what they cannot do.
class FileCopier {
 public:
  // `size` bytes from the beginning of `from` into `to`, which is empty. True: blocks are shared, no
  // bytes were copied. FAILED_PRECONDITION: `from` is shorter.
  absl::StatusOr<bool> Copy(int from, int to, uint64_t size);

 private:
  bool Share(int from, int to);
  absl::Status CopyBytes(int from, int to, uint64_t size);

  bool may_share_ = true;
  bool may_copy_range_ = true;
  std::vector<char> buffer_;
};

}  // namespace muster::tree
