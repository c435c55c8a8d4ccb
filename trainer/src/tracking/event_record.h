// The framing of TensorBoard's event files: length, checksum, bytes, checksum. Pure.
// Source: tensorflow/core/lib/io/record_writer.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

// CRC-32C (Castagnoli, reflected polynomial 0x82f63b78), RFC 3720 appendix B.4.
uint32_t crc32c(std::string_view bytes);

// A checksum that may be stored with the data it covers: rotated by 15 bits plus a constant.
uint32_t masked_crc32c(std::string_view bytes);

// Appends: uint64 length, uint32 masked CRC of those 8 bytes, the bytes, uint32 masked CRC of them;
// all little-endian.
void append_record(std::string& file, std::string_view bytes);

}  // namespace muster
