#include "common/base/version.h"

namespace muster::common {

const char* const kVersion = MUSTER_VERSION;
const uint32_t kProtocol = 4;

}  // namespace muster::common
