// CRC-32C (Castagnoli), as in RFC 3720, over log, index and metric records. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace muster::coordinator {

// Crc32c("123456789") is 0xe3069283. `before` continues an earlier sum.
uint32_t Crc32c(std::string_view bytes, uint32_t before = 0);

}  // namespace muster::coordinator
