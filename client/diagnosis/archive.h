// A .tar.gz in memory: POSIX ustar, one regular file per entry, compressed with zlib. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::client {

struct ArchiveFile {
  std::string name;  // relative, at most 100 bytes
  std::string content;
};
// `directory` is put before all names. Files get mode 0600. `level`: zlib's, 1 for speed. INVALID_ARGUMENT:
// a name is too long.
absl::StatusOr<std::string> MakeTarGz(std::string_view directory,
                                      const std::vector<ArchiveFile>& files, int64_t unix_seconds,
                                      int level = -1);

}  // namespace muster::client
