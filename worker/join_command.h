// muster-worker join: makes this machine a member of a cluster. The key is made here and stays here; the token
// is sent only to the coordinator that created it. Main thread.
#pragma once

#include <optional>

namespace muster::worker {

// The exit status if the command line is "join …"; otherwise nullopt.
std::optional<int> RunJoinCommand(int argc, char** argv);

}  // namespace muster::worker
