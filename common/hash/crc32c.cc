#include "common/hash/crc32c.h"

#include <array>
#include <cstddef>
#include <cstring>

namespace muster::common {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected
constexpr size_t kSlices = 8;
using Tables = std::array<std::array<uint32_t, 256>, kSlices>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = value;
  }
  for (uint32_t byte = 0; byte < 256; ++byte) {
    for (size_t slice = 1; slice < kSlices; ++slice) {
      const uint32_t value = tables[slice - 1][byte];
      tables[slice][byte] = (value >> 8) ^ tables[0][value & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

uint64_t WordAt(const char* at) {
  uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

#if defined(__x86_64__)
constexpr size_t kLaneBytes = 1'024;

// A sum after kLaneBytes zero bytes, by its four bytes: their parts are independent (the sum is linear).
constexpr Tables MakeLaneTables() {
  Tables tables{};
  for (size_t byte = 0; byte < 4; ++byte) {
    for (uint32_t bit = 1; bit < 256; bit <<= 1) {
      uint32_t value = bit << (8 * byte);
      for (size_t i = 0; i < kLaneBytes; ++i) value = (value >> 8) ^ kTables[0][value & 0xff];
      for (uint32_t below = 0; below < bit; ++below)
        tables[byte][bit + below] = tables[byte][below] ^ value;
    }
  }
  return tables;
}

constexpr Tables kLaneTables = MakeLaneTables();

uint32_t AfterLane(uint32_t sum) {
  return kLaneTables[0][sum & 0xff] ^ kLaneTables[1][(sum >> 8) & 0xff] ^
         kLaneTables[2][(sum >> 16) & 0xff] ^ kLaneTables[3][sum >> 24];
}

// The processor's own instruction. Three sums at a time, because each step waits for the one before it.
__attribute__((target("sse4.2"))) uint32_t HardwareSum(uint32_t sum, const char* at, size_t left) {
  for (; left >= 3 * kLaneBytes; at += 3 * kLaneBytes, left -= 3 * kLaneBytes) {
    uint64_t first = sum, second = 0, third = 0;
    for (size_t i = 0; i < kLaneBytes; i += 8) {
      first = __builtin_ia32_crc32di(first, WordAt(at + i));
      second = __builtin_ia32_crc32di(second, WordAt(at + kLaneBytes + i));
      third = __builtin_ia32_crc32di(third, WordAt(at + 2 * kLaneBytes + i));
    }
    sum = AfterLane(AfterLane(static_cast<uint32_t>(first)) ^ static_cast<uint32_t>(second)) ^
          static_cast<uint32_t>(third);
  }
  uint64_t wide = sum;
  for (; left >= 8; at += 8, left -= 8) {
    wide = __builtin_ia32_crc32di(wide, WordAt(at));
  }
  sum = static_cast<uint32_t>(wide);
  for (; left > 0; ++at, --left) {
    sum = __builtin_ia32_crc32qi(sum, static_cast<unsigned char>(*at));
  }
  return sum;
}

bool HasHardwareSum() {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}
#else
uint32_t HardwareSum(uint32_t sum, const char*, size_t) { return sum; }
bool HasHardwareSum() { return false; }
#endif

}  // namespace

uint32_t Crc32c(std::string_view bytes, uint32_t before) {
  uint32_t sum = ~before;
  const char* at = bytes.data();
  size_t left = bytes.size();
  if (HasHardwareSum()) return ~HardwareSum(sum, at, left);
  // Eight bytes per step (slicing-by-8); the daemons run on little-endian machines.
  for (; left >= 8; at += 8, left -= 8) {
    const uint64_t word = WordAt(at) ^ sum;
    sum = kTables[7][word & 0xff] ^ kTables[6][(word >> 8) & 0xff] ^
          kTables[5][(word >> 16) & 0xff] ^ kTables[4][(word >> 24) & 0xff] ^
          kTables[3][(word >> 32) & 0xff] ^ kTables[2][(word >> 40) & 0xff] ^
          kTables[1][(word >> 48) & 0xff] ^ kTables[0][word >> 56];
  }
  for (; left > 0; ++at, --left) {
    sum = (sum >> 8) ^ kTables[0][(sum ^ static_cast<unsigned char>(*at)) & 0xff];
  }
  return ~sum;
}

uint32_t MaskedCrc32c(std::string_view bytes) {
  const uint32_t sum = Crc32c(bytes);
  return ((sum >> 15) | (sum << 17)) + 0xa282ead8u;
}

}  // namespace muster::common
