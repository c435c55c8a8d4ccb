// Help pages and shell completion, generated only from the command table. Pure.
#pragma once

#include <string>
#include <string_view>

#include "client/command_line/command.h"

namespace muster::client {

std::string OverviewHelp();
std::string CommandHelp(const Command& command);
// The commands of a group: "ckpt".
std::string GroupHelp(std::string_view group);
std::string ExitCodeHelp();
// The keys of a job file.
std::string JobFileHelp();
// All commands as Markdown: docs/jobctl.md.
std::string HelpDocument();

// The script for bash, zsh or fish. It calls `jobctl __complete` for everything, so it never goes
// stale.
std::string CompletionScript(std::string_view shell);

}  // namespace muster::client
