#include "common/base/freed_memory.h"

#include <malloc.h>

namespace muster::common {
namespace {

constexpr int kMappedFromBytes = 4 << 20;
constexpr int kGrownByBytes = 1 << 20;
constexpr int kKeptBytes = 64 << 20;  // per arena

}  // namespace

void KeepFreedMemory() {
  mallopt(M_MMAP_THRESHOLD, kMappedFromBytes);
  mallopt(M_TOP_PAD, kGrownByBytes);
  mallopt(M_TRIM_THRESHOLD, kKeptBytes);
}

}  // namespace muster::common
