// SHA-256 over a stream of bytes (FIPS 180-4), so that the SDK needs no cryptography library.
// A plain value: no thread, no I/O.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace muster {

class Sha256 {
 public:
  void update(const void* data, size_t bytes);

  // 64 lower-case hexadecimal digits of everything so far. The object is finished afterwards.
  std::string hex_digest();

 private:
  void compress(const uint8_t* blocks, size_t count);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> tail_{};
  size_t tail_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace muster
