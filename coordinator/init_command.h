// `muster-coordinator init`: makes a cluster whose members are known, and prints the next commands.
#pragma once

#include <optional>

namespace muster::coordinator {

// Runs the command and returns its exit status. nullopt: the first word is not "init".
std::optional<int> RunInitCommand(int argc, char** argv);

}  // namespace muster::coordinator
