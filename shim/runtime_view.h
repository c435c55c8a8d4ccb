// Limits what the runtime of containers, which starts as root, can reach of the node: its programs and
// libraries, read only, the containers' own directory, and the paths that the bundles name. If an image, or a
// process that changes a mount meanwhile, leads the runtime to another path, that path does not exist or is
// read only.
#pragma once

#include <string>

#include "common/kernel/shim_protocol.h"

namespace muster::shim {

// Makes the runtime's view of the node this process's root. The process must be in its own mount
// namespace, whose mounts no other process sees. Empty, or what failed.
std::string EnterRuntimeView(const common::LaunchContainer& container);

}  // namespace muster::shim
