// The programs link libstdc++ statically (muster_harden in cmake/MusterBuild.cmake). Its std::random_device calls
// arc4random, which glibc has only since 2.36. With this replacement the programs run on glibc 2.34.
#include <sys/random.h>

#include <cerrno>
#include <cstdint>

extern "C" uint32_t arc4random() noexcept;

extern "C" uint32_t arc4random() noexcept {
  uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
    if (errno != EINTR)
      __builtin_trap();  // a kernel without getrandom: better to stop than to return a predictable number
  }
  return value;
}
