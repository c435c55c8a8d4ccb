// Bytes that are sent somewhere: in memory, or a range of a file that is never read into memory as a whole.
// Any thread; the owner keeps memory and descriptor until the reader is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"

namespace muster::common {

struct FileRange {
  int fd = -1;  // of a regular file; read with pread, so its position does not matter
  uint64_t offset = 0;
  uint64_t size = 0;
};

using ByteSource = std::variant<std::string_view, FileRange>;

uint64_t SizeOf(const ByteSource& bytes);
// Copies up to `max` bytes from `offset` on into `to`, and returns how many; 0 at the end alone. DATA_LOSS if the
// file is shorter than its range; an errno's status.
absl::StatusOr<size_t> CopyFrom(const ByteSource& bytes, uint64_t offset, char* to, size_t max);

}  // namespace muster::common
