// One file's bytes, as they were at one moment: read again if it changes meanwhile. Any thread that
// may block.
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
  std::string bytes;  // if smaller than kOwnObjectBytes; its memory is used again by the next read
};

// Called with what was read, before it is known that the file did not change.
using OnRead = std::function<void(std::string_view path, uint64_t bytes)>;

// NOT_FOUND: it is gone. ABORTED: it changed in each of kReadTries. Messages are for a Listing.
absl::Status ReadStable(Directories& directories, std::string_view path, const OnRead& on_read,
                        StableFile* file);

// ABORTED, naming the file, for bytes that differ from those that the tree's identity is made of.
absl::Status ChangedSince(std::string_view path);

}  // namespace muster::tree
