// CRC-32C (Castagnoli), as in RFC 3720, used for log, index and metric records and TFRecord files.
// Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace muster::common {

// Crc32c("123456789") is 0xe3069283. `before` continues an earlier checksum.
uint32_t Crc32c(std::string_view bytes, uint32_t before = 0);
// TFRecord's masked form: rotated right by 15, plus a constant.
uint32_t MaskedCrc32c(std::string_view bytes);

}  // namespace muster::common
