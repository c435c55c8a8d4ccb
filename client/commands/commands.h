// The rows of all commands. MUSTER_COMMANDS is made by client/CMakeLists.txt from the files of this folder: a command
// is its file, which defines its row (command.h), and needs no other line.
#pragma once

#include "client/command_line/command.h"
#include "client/commands/found.h"

namespace muster::client {

#define MUSTER_DECLARED(name) extern const Command k##name##Command;
MUSTER_COMMANDS(MUSTER_DECLARED)
#undef MUSTER_DECLARED

}  // namespace muster::client
