// Options of sbatch and srun that are not taken over: those without which a job means the same, and those
// without which it would mean something else. Source: sbatch(1), srun(1) of Slurm 22.05 to 24.11, and Pyxis's
// --container-… options. Pure.
#pragma once

#include <string_view>

#include "client/launchers/job_draft.h"

namespace muster::client {

struct LeftOutOption {
  std::string_view names;  // "output|o|error|e"; the first one stands for all
  std::string_view what;  // the equivalent here; for a refused option, what would happen without it
  std::string_view fix;   // what to write instead; empty: the job means the same without it
  bool is_refused() const { return !fix.empty(); }
};

// `name` without dashes. Unknown options are refused.
const LeftOutOption& FindLeftOut(std::string_view name);
// Lists the option in the draft as left out or as refused. `shown`: as the script has it.
void LeaveOutOption(std::string_view name, std::string_view shown, JobDraft* draft);

}  // namespace muster::client
