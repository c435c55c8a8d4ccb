// Records and their checksums; see event_record.h.
#include "tracking/event_record.h"

#include <array>

namespace muster {
namespace {

constexpr std::array<uint32_t, 256> make_crc32c_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0u);
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrc32cTable = make_crc32c_table();

template <typename Unsigned>
void append_little_endian(std::string& out, Unsigned value) {
  for (size_t i = 0; i < sizeof(value); ++i) {
    out += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  }
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc = (crc >> 8) ^ kCrc32cTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  }
  return ~crc;
}

uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

void append_record(std::string& file, std::string_view bytes) {
  const size_t begin = file.size();
  append_little_endian(file, static_cast<uint64_t>(bytes.size()));
  append_little_endian(file, masked_crc32c(std::string_view(file).substr(begin)));
  file += bytes;
  append_little_endian(file, masked_crc32c(bytes));
}

}  // namespace muster
