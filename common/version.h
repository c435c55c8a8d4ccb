// Our version, and the wire protocol we speak.
#pragma once

#include <cstdint>

namespace muster::common {

inline constexpr char kVersion[] = "0.1.0";
// Bumped when an older peer could misunderstand us. Each side sends its own; a peer below
// kProtocolMin is rejected.
// 2: a registration is provisional until Cleared. 3: nodes prepare code, setup and containers.
inline constexpr uint32_t kProtocol = 3;
inline constexpr uint32_t kProtocolMin = 1;

}  // namespace muster::common
