// CRC-32C (Castagnoli), as in TFRecord files and our own batch files. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace muster::worker {

uint32_t Crc32c(std::string_view bytes);
// TFRecord's masking of it: rotated right by 15, plus a constant.
uint32_t MaskedCrc32c(std::string_view bytes);

}  // namespace muster::worker
