// Reads one file's bytes as of one moment: reads again if the file changes meanwhile. Any thread
// that may block.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "tree/directories.h"
#include "tree/manifest.h"

namespace muster::tree {

inline constexpr int kReadTries = 3;

struct StableFile {
  Stamp stamp;
  Kind kind = Kind::kFile;
  Digest content;
  std::string bytes;  // if smaller than kOwnObjectBytes; the next read reuses its memory
};

// Called as bytes are read, before it is known that the file did not change.
using OnRead = std::function<void(std::string_view path, uint64_t bytes)>;

// NOT_FOUND: it is gone. ABORTED: it changed in each of kReadTries. Messages are for a Listing.
absl::Status ReadStable(Directories& directories, std::string_view path, const OnRead& on_read,
                        StableFile* file);

// ABORTED, naming the file, for bytes that differ from those in the tree's identity.
absl::Status ChangedSince(std::string_view path);

}  // namespace muster::tree
