// MANIFEST of a backup: what was saved, where it lies in the backup, and the SHA-256 of each file.
// Written last, so a directory without one is not a whole backup. Pure. docs/formats.md describes
// it.
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

// The copy of the database, by its path below the data directory.
inline constexpr char kSavedDatabase[] = "muster.db";

struct Manifest {
  std::string cluster;  // of the data directory, 16 hex digits
  uint64_t number = 0;  // of the backup in its directory, from 1
  int64_t made_ms = 0;  // Unix time of the database's copy
  uint64_t last_event = 0;
  std::vector<SavedFile> files;
};

std::string ManifestText(const Manifest& manifest);
// DATA_LOSS: cut off, damaged, or with a path that leads out of its directory.
// FAILED_PRECONDITION: of a newer version.
absl::StatusOr<Manifest> ParseManifest(std::string_view text);

// A relative path of letters, digits, '.', '_' and '-' only, without "." and "..": what the
// coordinator calls its files.
bool IsSavedName(std::string_view path);

}  // namespace muster::coordinator
