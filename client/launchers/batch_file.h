// A batch script where a job file is expected: `jobctl submit job.sbatch`. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/launchers/job_draft.h"
#include "client/launchers/launchers.h"

namespace muster::client {

// It begins with #! and has a line of #SBATCH before its first command, as sbatch wants it.
bool IsSbatchScript(std::string_view content);

struct BatchJob {
  std::string job_file;
  std::vector<std::string> notes;
  std::vector<std::string> left_out;  // what was not taken over, and why: one each
};
struct BatchScript {
  std::string name;  // "job.sbatch"
  std::string_view content;
  std::vector<std::string> arguments;
  // What may be left out although the job then means something else.
  std::vector<std::string> ignored;
};
// The script as a job file. Errors: JC1010, JC1013 (what is not ignored), and those of the file.
absl::StatusOr<BatchJob> JobOfSbatch(const BatchScript& script, const Environment& environment,
                                     const CountDevices& on_a_node);

}  // namespace muster::client
