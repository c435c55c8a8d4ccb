// The lines of a batch script around the one that starts ranks: those that set up the shell, those
// that do nothing that lasts, and all others. Source of the first kind: what the scripts of Slurm's
// sites have, environment modules and conda. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "client/launchers/script_lines.h"

namespace muster::client {

// `module …`, `source FILE`, `conda activate`, `export`, `cd`, one of them and plain.
bool SetsUpShell(std::string_view text);
// It prints, waits, tests or sets an option of the shell: without it the command does the same.
bool DoesNothingThatLasts(std::string_view text);

// The shell that a script's first line names: "/bin/bash". Empty: none that has `-l` and `-c`.
std::string ShellOf(std::string_view content);
// `command` behind the lines, in a login shell that it replaces. As in a script, a line that fails
// does not keep the next one from running, unless `set -e` came first.
std::vector<std::string> BehindLines(const std::string& shell,
                                     const std::vector<std::string>& lines,
                                     const std::vector<std::string>& command);

}  // namespace muster::client
