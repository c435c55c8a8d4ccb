// Who we are, and which wire protocol we speak.
#pragma once

#include <cstdint>

namespace muster::common {

inline constexpr char kVersion[] = "0.1.0";
// Grows when an older peer could misunderstand us. Both sides say theirs; a peer below kProtocolMin
// is refused.
inline constexpr uint32_t kProtocol = 2;  // 2: a registration is provisional until Cleared
inline constexpr uint32_t kProtocolMin = 1;

}  // namespace muster::common
