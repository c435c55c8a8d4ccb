// The change from the shim's account to a rank's. Async-signal-safe.
#pragma once

#include "common/kernel/shim_protocol.h"

namespace muster::shim {

// Groups, gid, uid, all of them and for good; with `drops_capabilities` no capability is left, and
// none can be gained by running a program. kNone, or the stage that failed, with errno.
common::ExecStage BecomeAccount(const common::LaunchAccount& account, bool drops_capabilities);

}  // namespace muster::shim
