// A SHA-256 as 32 bytes: half the memory of its text, for lists of a million. Pure, any thread.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "common/hash/sha256.h"

namespace muster::tree {

struct Digest {
  std::array<uint8_t, 32> bytes{};
  auto operator<=>(const Digest&) const = default;
};

// No mixing is needed, because a digest's bytes are random already.
struct DigestHash {
  size_t operator()(const Digest& digest) const {
    size_t value = 0;
    std::memcpy(&value, digest.bytes.data(), sizeof value);
    return value;
  }
};

Digest DigestOf(std::string_view bytes);
// Call it once, like Sha256::FinishHex.
Digest Finish(common::Sha256& hash);
// 64 lower-case hex digits, as `sha256sum` prints.
std::string Hex(const Digest& digest);
std::optional<Digest> FromHex(std::string_view hex);

}  // namespace muster::tree
