// Outputs: the directories and files (JobSpec.outputs) that come back when an attempt ends. Pure, any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::common {

// Checkpoint.step of an attempt's outputs. No checkpoint has it.
inline constexpr int64_t kOutputsStep = -1;

// An entry of JobSpec.outputs as the beginning of paths: "./results/" is "results", "." is empty, the
// whole working directory. nullopt: it leads out of the working directory.
std::optional<std::string> CleanOutput(std::string_view output);
// How many bytes of outputs an attempt may have if the coordinator keeps `quota_bytes` of a job's
// outputs. 0: no quota.
uint64_t OutputsBytesMax(uint64_t quota_bytes);
// Why more than that is refused: ", which is what the coordinator keeps …"; empty if the quota is not the
// reason.
std::string WhyNoMoreOutputs(uint64_t quota_bytes);
// Whether a path is the clean output itself, or lies in it.
bool LiesIn(std::string_view path, std::string_view clean_output);

}  // namespace muster::common
