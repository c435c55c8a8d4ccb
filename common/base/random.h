// Random numbers that need not be secret: ids, jitter's seeds.
#pragma once

#include <cstdint>
#include <random>

namespace muster::common {

// 64 bits from the system.
inline uint64_t Random64() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

}  // namespace muster::common
