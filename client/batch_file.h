// A batch script where a job file is expected: `jobctl submit job.sbatch`. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/job_draft.h"
#include "client/launchers.h"

namespace muster::client {

// It begins with #! and has a line of #SBATCH before its first command, as sbatch wants it.
bool IsSbatchScript(std::string_view content);

struct BatchJob {
  std::string job_file;
  std::vector<std::string> left_out;  // what was not taken over, and why: one each
};
// The script as a job file. Errors: JC1010 and those of the file.
absl::StatusOr<BatchJob> JobOfSbatch(const std::string& name, std::string_view content,
                                     const Environment& environment, const CountDevices& on_a_node);

}  // namespace muster::client
