// Our version, and the wire protocol we speak.
#pragma once

#include <cstdint>

namespace muster::common {

// Only version.cc defines these, so that a test can link the same tree as another release.
extern const char* const kVersion;
// Bumped when an older peer could misunderstand us. Each side sends its own; a peer below
// kProtocolMin is rejected.
// 2: a registration is provisional until Cleared. 3: nodes prepare code, setup and containers. 4: nodes have a store that
// ranks meet at.
extern const uint32_t kProtocol;
inline constexpr uint32_t kProtocolMin = 1;

}  // namespace muster::common
