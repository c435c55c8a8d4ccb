#include "coordinator/packs/packs.h"

#include "absl/strings/str_format.h"
#include "common/base/random.h"

namespace muster::coordinator {

PackTerm NewPackTerm(uint64_t epoch) {
  return {.epoch = epoch,
          .life = absl::StrFormat("%08x", static_cast<uint32_t>(common::Random64()))};
}

}  // namespace muster::coordinator
