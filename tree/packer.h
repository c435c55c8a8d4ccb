// Gives contents their places: small ones one after the other in packs of about kPackBytes, large
// ones in separate objects. A content that has a place keeps it. Pure, one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/hash/sha256.h"
#include "tree/placement.h"

namespace muster::tree {

class Packer {
 public:
  // `objects` exist already. `contents`: about as many will be known.
  Packer(std::vector<Object> objects, size_t contents) : objects_(std::move(objects)) {
    places_.reserve(contents);
  }

  // The content is at `place` of an existing object.
  void Know(const Digest& content, const Place& place) { places_.emplace(content, place); }
  std::optional<Place> Find(const Digest& content) const;
  // Adds a content that has no place yet, is smaller than kOwnObjectBytes and not empty.
  Place Append(const Digest& content, std::string_view bytes);
  // Adds a content that has no place yet and has at least kOwnObjectBytes.
  Place AddOwn(const Digest& content, uint64_t size);
  // Names the last pack. No content can be appended afterwards.
  void Finish();
  // Stops using these objects, so that their contents have no place any more.
  void Abandon(const std::vector<bool>& objects);

  const std::vector<Object>& objects() const { return objects_; }

 private:
  std::vector<Object> objects_;  // the open pack has its size, but no name
  absl::flat_hash_map<Digest, Place, DigestHash> places_;
  std::optional<common::Sha256> open_;
  uint32_t open_object_ = kNoObject;
};

// Which objects should be repacked: packs of which less than half is used, and small ones if there
// are many. `used`: bytes of each object that some file needs.
std::vector<bool> SparsePacks(const std::vector<Object>& objects,
                              const std::vector<uint64_t>& used);

}  // namespace muster::tree
