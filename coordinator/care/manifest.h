// The MANIFEST of a backup: which files were saved, where they are in the backup, and the SHA-256
// of each. It is written last, so a directory without one does not hold a complete backup. Pure.
// The format is described in docs/formats.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace muster::coordinator {

struct SavedFile {
  std::string path;    // below the data directory
  std::string stored;  // below the backup
  uint64_t size = 0;
  std::string sha256;
  int64_t modified_ns = 0;  // of the original
};

// The database's path below the data directory.
inline constexpr char kSavedDatabase[] = "muster.db";

struct Manifest {
  std::string cluster;  // of the data directory, 16 hex digits
  uint64_t number = 0;  // of the backup in its directory, counting from 1
  int64_t made_ms = 0;  // Unix time when the database was copied
  uint64_t last_event = 0;
  std::vector<SavedFile> files;
};

std::string ManifestText(const Manifest& manifest);
// DATA_LOSS: truncated, damaged, or contains a path that leads out of its directory.
// FAILED_PRECONDITION: written by a newer version.
absl::StatusOr<Manifest> ParseManifest(std::string_view text);

// Whether this is a name that the coordinator gives its files: a relative path of letters, digits,
// '.', '_' and '-' only, without "." or ".." components.
bool IsSavedName(std::string_view path);

}  // namespace muster::coordinator
