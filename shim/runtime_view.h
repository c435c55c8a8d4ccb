// What the runtime of containers, which starts as root, has of the node: its programs and libraries to
// read, the containers' own directory, and what the bundles name. A path that it is led to by an image or
// by who changes a mount meanwhile is then not there, or cannot be written to.
#pragma once

#include <string>

#include "common/kernel/shim_protocol.h"

namespace muster::shim {

// Makes the runtime's view of the node this process's root. The process must be in its own mount
// namespace, whose mounts no other process sees. Empty, or what failed.
std::string EnterRuntimeView(const common::LaunchContainer& container);

}  // namespace muster::shim
