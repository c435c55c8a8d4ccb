// What a directory contains: names, kinds, contents; no times, no owners. The same content gives the same bytes
// on every machine, and their SHA-256 is the tree's identity (docs/formats.md). The places of the contents are
// recorded elsewhere (tree/placement.h), so identity does not depend on them. Pure, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tree/digest.h"
#include "tree/names.h"

namespace muster::tree {

// limit: trees: entries of one; it is refused
inline constexpr size_t kEntriesMax = 1'000'000;
// limit: trees: all files of one together; it is refused
inline constexpr uint64_t kTreeBytesMax = 1ull << 40;  // of all files together
// limit: trees: all paths and link targets of one; it is refused
inline constexpr size_t kPathsBytesMax = 256 << 20;  // of all paths and link targets
// limit: trees: an encoded manifest
inline constexpr size_t kManifestBytesMax = 320 << 20;  // encoded
inline constexpr size_t kLinkTargetBytesMax = kPathBytesMax;

// The numbers are those of the encoding.
enum class Kind : uint8_t { kFile = 0, kExecutable = 1, kLink = 2, kDirectory = 3 };

struct Entry {
  std::string path;  // relative to the root, which has no entry
  Kind kind = Kind::kFile;
  uint64_t size = 0;   // of a file
  Digest content;      // of a file
  std::string target;  // of a link
  bool IsFile() const { return kind == Kind::kFile || kind == Kind::kExecutable; }
};

// Sorted by PathLess; every directory has an entry, before the entries in it.
struct Manifest {
  std::vector<Entry> entries;
  uint64_t TotalBytes() const;
};

// Encodes a manifest that keeps the rules (Decode checks them; a snapshot keeps them).
std::string Encode(const Manifest& manifest);

// Decodes untrusted bytes. INVALID_ARGUMENT names the entry and the rule that it breaks: order,
// names, depth, a missing directory, an entry below a file, sizes, links that lead out. Exactly one
// encoding of a manifest is accepted, so equal trees are equal bytes.
absl::StatusOr<Manifest> Decode(std::string_view bytes);

// The tree's identity.
inline Digest IdentityOf(std::string_view encoded) { return DigestOf(encoded); }

// Returns why a link cannot be part of the tree, or empty: it is absolute, or following it, even
// through other links of the tree, leads out. `dangling` (optional): its target is not in the tree.
class LinkRules {
 public:
  // `manifest` must outlive it and not change; sorted.
  explicit LinkRules(const Manifest& manifest);
  std::string_view Problem(const Entry& link, bool* dangling = nullptr);

 private:
  const Entry* Find(std::string_view path, bool links_only) const;

  const Manifest& manifest_;
  std::vector<uint32_t> links_;  // their positions
  uint64_t steps_left_;
};

}  // namespace muster::tree
