// Classifies the lines of a batch script around the one that starts ranks: lines that set up the
// shell, lines without a lasting effect, and all others. Source of the first kind: scripts of Slurm
// sites, environment modules and conda. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "client/launchers/script_lines.h"

namespace muster::client {

// True for a single plain `module …`, `source FILE`, `conda activate`, `export` or `cd`.
bool SetsUpShell(std::string_view text);
// True if it prints, waits, tests or sets an option of the shell: without it the command does the
// same.
bool DoesNothingThatLasts(std::string_view text);

// The shell that a script's first line names: "/bin/bash". Empty: it names no shell with `-l` and
// `-c`.
std::string ShellOf(std::string_view content);
// A command line that runs the lines in a login shell and then replaces the shell by `command`. As
// in a script, a line that fails does not keep the next one from running, unless `set -e` came
// first.
std::vector<std::string> BehindLines(const std::string& shell,
                                     const std::vector<std::string>& lines,
                                     const std::vector<std::string>& command);

}  // namespace muster::client
