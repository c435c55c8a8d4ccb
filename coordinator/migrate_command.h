// `muster-coordinator migrate`: moves the state of a coordinator that is alone into etcd, for several that replace each
// other, or back. No coordinator runs meanwhile.
#pragma once

#include <optional>

namespace muster::coordinator {

// The exit code; nothing: the command line is not `migrate`.
std::optional<int> RunMigrateCommand(int argc, char** argv);

}  // namespace muster::coordinator
