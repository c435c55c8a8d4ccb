// Where the contents of a manifest's files are stored: in which object, from which byte. An object
// is one file of at least 1 MiB, or a pack of smaller ones, one after the other; its SHA-256 is its
// name. Pure, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tree/digest.h"
#include "tree/manifest.h"

namespace muster::tree {

inline constexpr uint64_t kOwnObjectBytes = 1 << 20;  // a file of this size is its own object
inline constexpr uint64_t kPackBytes = 8 << 20;       // a pack is finished once it has this many
inline constexpr uint64_t kPackBytesMax = kPackBytes + kOwnObjectBytes;
inline constexpr uint32_t kNoObject = UINT32_MAX;

struct Object {
  Digest name;
  uint64_t size = 0;
};

struct Place {
  uint32_t object = kNoObject;  // of Placement::objects; none for a link, directory or empty file
  uint64_t offset = 0;
};

struct Placement {
  std::vector<Object> objects;  // sorted by name, each used by some file
  std::vector<Place> places;    // one per entry of the manifest, in its order
};

std::string EncodePlacement(const Manifest& manifest, const Digest& identity,
                            const Placement& placement);

// Decodes untrusted bytes, for exactly this manifest: INVALID_ARGUMENT if it is for another tree,
// or a file would lie outside its object. Whether an object has the right bytes shows only when
// they are read.
absl::StatusOr<Placement> DecodePlacement(std::string_view bytes, const Manifest& manifest,
                                          const Digest& identity);

}  // namespace muster::tree
