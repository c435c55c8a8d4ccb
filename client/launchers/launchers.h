// Command lines of other launchers, used unchanged: `jobctl run -- torchrun --nproc-per-node 2
// train.py`. Recognized, parsed by the launcher's own rules, and turned into the command of one
// rank plus a shape and environment. Reads the first line of the launcher's script (to find its
// Python) and configuration files, nothing else; never runs anything.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster::client {

// A variable of the submitting environment; empty if unset.
using Environment = std::function<std::string(std::string_view)>;

struct LaunchPlan {
  std::string launcher;              // "torchrun", as people know it
  std::vector<std::string> command;  // argv of one rank
  uint32_t processes = 0;            // total ranks; 0: per_node × nodes
  uint32_t per_node = 0;
  uint32_t min_nodes = 0;
  uint32_t max_nodes = 0;
  std::string per_node_of;  // a device kind or "auto": as many ranks as a node has of them
  std::string device_kind;
  std::optional<uint32_t> restarts;
  std::optional<uint32_t> grace_ms;
  std::map<std::string, std::string> env;
  std::string role;
  std::string run_id;
  std::string log_dir;
  bool virtual_local_rank = false;
  std::vector<std::string> overridden;  // flags that the coordinator decides itself
  std::vector<std::string> notices;     // sentences
};

// Null if `argv` is not a launcher's command line, including behind `env A=1`, `nohup` and `sh -c`.
// Errors: JC1010, JC1011, JC1012.
absl::StatusOr<std::optional<LaunchPlan>> ReadLauncherLine(const std::vector<std::string>& argv,
                                                           const Environment& environment);

// `--accelerate-config FILE` for a plain command: the settings of `accelerate launch --config_file
// FILE`.
absl::StatusOr<LaunchPlan> PlanFromAccelerateConfig(const std::string& path,
                                                    const std::vector<std::string>& command,
                                                    const Environment& environment);

// One line: what was used and what was overridden; empty if there is nothing to report.
std::string DescribePlan(const LaunchPlan& plan);

// A launcher that the command itself starts, inside a shell command or behind another command:
// "torchrun" in `bash -c "cd x && torchrun …"`. Empty: none.
std::string InnerLauncher(const std::vector<std::string>& argv);

// "MASTER_ADDR", "RANK": scripts set them for torchrun; ranks get the coordinator's values.
bool IsRankVariable(std::string_view name);

// ---- shared by the launchers' files

enum class FlagFate { kHonored, kOverridden, kDisplay, kRefused };
// The same, short enough for the launchers' tables.
inline constexpr FlagFate kYes = FlagFate::kHonored;
inline constexpr FlagFate kOurs = FlagFate::kOverridden;
inline constexpr FlagFate kShown = FlagFate::kDisplay;
inline constexpr FlagFate kNo = FlagFate::kRefused;
struct LaunchFlag {
  std::string_view name;  // with `-` for `_`
  char letter = 0;
  bool takes_value = false;
  FlagFate fate = FlagFate::kHonored;
  std::string_view fix = {};  // for a rejected flag
};
struct LaunchFlags {
  std::map<std::string, std::string, std::less<>> values;  // by name; switches: "1"
  std::vector<std::string> script;  // the first bare word and everything after it

  bool Has(std::string_view name) const { return values.find(name) != values.end(); }
  std::string Get(std::string_view name, std::string_view otherwise = {}) const;
};
// `prefixes`: every flag with one of these prefixes takes a value.
absl::StatusOr<LaunchFlags> ParseLaunchFlags(std::string_view launcher,
                                             std::span<const std::string> words,
                                             std::span<const LaunchFlag> table,
                                             std::span<const std::string_view> prefixes,
                                             LaunchPlan* plan);
absl::StatusOr<uint32_t> LaunchNumber(std::string_view launcher, const LaunchFlags& flags,
                                      std::string_view name, uint32_t least, uint32_t otherwise);

// "/usr/bin/env" -> "env".
std::string ProgramName(std::string_view path);

// A command line without wrappers: assignments by env and by the shell, nohup, and `sh -c` if its
// argument is one plain command.
struct WrappedLine {
  std::vector<std::string> words;
  std::map<std::string, std::string> env;
  bool has_nohup = false;
};
// The words of a shell command that is one plain command; empty if a shell would do more than split
// it.
std::vector<std::string> PlainShellWords(std::string_view text);
WrappedLine Unwrap(const std::vector<std::string>& argv);

// The interpreter that the launcher at `program` would use for scripts: from its #! line, python3
// next to it, or python3.
std::string PythonOf(const std::string& program, const Environment& environment);

absl::StatusOr<LaunchPlan> ReadTorchrun(std::string_view launcher,
                                        std::span<const std::string> words,
                                        const std::vector<std::string>& python,
                                        const Environment& environment);
absl::StatusOr<LaunchPlan> ReadAccelerate(std::span<const std::string> words,
                                          const std::vector<std::string>& python,
                                          const Environment& environment);
// Adds the settings of the configuration file; values already in `flags` take precedence. Notes
// about ignored settings go to notices.
absl::Status ReadAccelerateConfig(const std::string& path, bool must_exist, LaunchFlags* flags,
                                  LaunchPlan* plan);
// Fills in shape and environment of `plan` from flags and configuration.
absl::Status PlanAccelerate(const LaunchFlags& flags, LaunchPlan* plan);

}  // namespace muster::client
