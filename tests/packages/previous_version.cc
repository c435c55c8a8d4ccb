// The release before this one, for what upgrades meet: the same programs, linked with an older version and protocol.
#include "common/base/version.h"

namespace muster::common {

const char* const kVersion = "0.0.9";
const uint32_t kProtocol = 2;

}  // namespace muster::common
