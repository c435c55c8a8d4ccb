// The one command that a shell script starts, for files that people hand to a batch system. No shell
// runs: a line that needs one is reported, not guessed. Pure.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/launchers/job_draft.h"

namespace muster::client {

inline constexpr size_t kScriptBytesMax = 256 * 1024;

// The draft of the one line that starts ranks: a launcher's (srun, torchrun, accelerate), or without one a
// program's (python, ./PROGRAM). Before it `export NAME=VALUE` and `cd /DIR` are taken over; from the first
// line on whose value only a shell can compute, these and other lines that set up the shell (shell_lines.h) run
// in a login shell before the command. Other lines are named in left_out, or in refused if they do something
// that lasts. `variables`: the values of $NAME, including "1" and "@". `take_srun_option` gets each option of
// an srun that has a value; false: it has no meaning here. Errors: JC1010 if no line starts ranks, several do,
// or that line needs a shell.
using TakeOption = std::function<bool(std::string_view name, std::string_view value)>;
absl::Status TakeScript(std::string_view content, std::map<std::string, std::string> variables,
                        const TakeOption& take_srun_option, const Environment& environment,
                        const CountDevices& on_a_node, JobDraft* draft);

// sbatch: #SBATCH lines and the script below them, which gets `arguments`. Source: sbatch(1).
absl::Status TakeSbatch(std::string_view content, const std::vector<std::string>& arguments,
                        const Environment& environment, const CountDevices& on_a_node,
                        JobDraft* draft);

}  // namespace muster::client
