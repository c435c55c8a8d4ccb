// A part of the data directory's disk that one job or project may take for something, as flags
// name it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace muster::coordinator {

struct DiskShare {
  uint64_t bytes = 0;
  uint32_t percent = 0;  // of the disk, instead of bytes; both 0: no limit

  // On a disk of this size.
  uint64_t Of(uint64_t disk_bytes) const {
    return percent == 0 ? bytes : std::max<uint64_t>(disk_bytes / 100 * percent, 1);
  }
  std::string Text() const;  // "10%", "50 GB"
};

// "10%", "50GB", or "0" for no limit. INVALID_ARGUMENT: anything else.
absl::StatusOr<DiskShare> ParseDiskShare(std::string_view text);

}  // namespace muster::coordinator
