// crc32c: one table, byte by byte; scalars are small.
#include "worker/crc32c.h"

#include <array>

namespace muster::worker {
namespace {

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? 0x82F63B78u : 0u);
    table[byte] = value;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = MakeTable();

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  uint32_t value = 0xFFFFFFFFu;
  for (const char c : bytes) {
    value = kTable[(value ^ static_cast<uint8_t>(c)) & 0xFF] ^ (value >> 8);
  }
  return ~value;
}

uint32_t MaskedCrc32c(std::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

}  // namespace muster::worker
