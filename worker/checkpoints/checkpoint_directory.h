// The contents of MUSTER_CHECKPOINT_DIR, by the rules of docs/protocol.md: finished step-N
// directories, their part files, their files. Names come from user programs: anything that could
// lead out of the directory is rejected. Any thread; blocks for directory listings.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/limits.h"

namespace muster::worker {

inline constexpr size_t kCheckpointFilesMax = common::kPartFilesMax;
inline constexpr int kCheckpointDepthMax = 16;

struct FoundStep {
  int64_t step = 0;
  uint32_t part = 0;
  uint32_t parts = 0;   // 0: no part file
  std::string problem;  // not empty: why this step must not be uploaded
};
// Finished step directories that are not in `seen`, ascending, at most `max`. None if the directory
// does not exist.
absl::StatusOr<std::vector<FoundStep>> FindSteps(const std::string& checkpoints_dir,
                                                 const std::set<int64_t>& seen = {},
                                                 size_t max = SIZE_MAX);

struct StepFile {
  std::string path;  // relative to the step directory
  uint64_t size = 0;
};
// Every file of a step, sorted by path. INVALID_ARGUMENT names the entry that is not allowed: a
// symbolic link, a device, a name with control characters.
absl::StatusOr<std::vector<StepFile>> ListStepFiles(const std::string& step_dir);

// A relative path without empty, "." or ".." components and without control characters.
absl::Status CheckRelativePath(std::string_view path);

}  // namespace muster::worker
