// A batch script where a job file is expected: `jobctl submit job.sbatch`. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/launchers/job_draft.h"
#include "client/launchers/launchers.h"

namespace muster::client {

// True if it begins with #! and has an #SBATCH line before its first command, as sbatch requires.
bool IsSbatchScript(std::string_view content);

struct BatchJob {
  std::string job_file;
  std::vector<std::string> notes;
  std::vector<std::string> left_out;  // parts that were not taken over, with reasons
};
struct BatchScript {
  std::string name;  // "job.sbatch"
  std::string_view content;
  std::vector<std::string> arguments;
  // The parts to leave out even if the job then means something else.
  std::vector<std::string> ignored;
};
// The script as a job file. Errors: JC1010, JC1013 (parts that are not ignored), and those of the
// file.
absl::StatusOr<BatchJob> JobOfSbatch(const BatchScript& script, const Environment& environment,
                                     const CountDevices& on_a_node);

}  // namespace muster::client
