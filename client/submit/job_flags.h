// The flags that describe a job, each defined once: its help text, its commands, and how its value is entered
// into the spec. A command that describes a job uses its part of the table and adds its own flags. A flag means
// the same on every command, so that `plan` can replace `submit` on a command line.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "client/command_line/command.h"
#include "muster/v1/job.pb.h"

namespace muster::client {

class Arguments;
class Session;

enum JobCommand : unsigned {
  kForRun = 1,
  kForSubmit = 2,
  kForPlan = 4,
  kForInit = 8,
  kForValidate = 16
};
inline constexpr unsigned kStarting = kForRun | kForSubmit | kForPlan;

// The job into which flags are entered.
struct JobInMaking {
  Session& session;  // for notes
  v1::JobSpec& spec;
  uint32_t& device_total;  // of "gpu:8"; 0: none
};
using EnterFlag = absl::Status(const Arguments& arguments, JobInMaking job);

// Called for a flag that is given.
EnterFlag EnterProcesses, EnterNodes, EnterDevices, EnterCpus, EnterMemory, EnterEnv, EnterName,
    EnterLabels, EnterProject, EnterSecrets, EnterRestarts, EnterPriority, EnterTime, EnterEstimate,
    EnterGrace, EnterSetup, EnterOutputs, EnterImage, EnterEventDirectories;

struct JobFlag {
  Flag flag;
  unsigned commands = 0;       // of JobCommand
  EnterFlag* enter = nullptr;  // null: selects what to read or send (spec.cc), or init asks for it
};

inline constexpr JobFlag kJobFlags[] = {
    {{"processes", 'n', "N", "ranks in total (1)"}, kStarting, EnterProcesses},
    {{"processes", 'n', "N", "ranks in total"}, kForInit},
    {{"nodes", 0, "K", "use exactly K nodes (any number)"}, kStarting, EnterNodes},
    {{"nodes", 0, "K", "use exactly K nodes"}, kForInit},
    {{"devices",
      0,
      "KIND",
      "a kind like gpu, a model like h100, gpu:8 for a total (an accelerator if there is one, "
      "otherwise cpu)",
      {},
      "device"},
     kStarting,
     EnterDevices},
    {{"devices", 0, "KIND", "a kind like gpu, a model like h100", {}, "device"}, kForInit},
    {{"cpus", 0, "N",
      "processors that each rank may use at most, e.g. 2 or 0.5; refused where a node cannot "
      "enforce it"},
     kStarting,
     EnterCpus},
    {{"memory", 0, "SIZE",
      "memory that each rank may use at most, e.g. 512MiB or 4GB; it is killed beyond that"},
     kStarting,
     EnterMemory},
    {{"env", 'e', "NAME[=VALUE]",
      "set a variable for the ranks, without a value to the one here; may be repeated"},
     kStarting,
     EnterEnv},
    {{"name", 0, "NAME", "name of the job; the coordinator appends its number"},
     kStarting | kForInit,
     EnterName},
    {{"label", 'l', "K=V", "a label of the job, for ls -l; may be repeated"},
     kStarting,
     EnterLabels},
    {{"project", 0, "NAME", "project that the job belongs to (default)"}, kStarting, EnterProject},
    {{"secret", 0, "NAME", "a secret of yours that the ranks get as a file; may be repeated"},
     kStarting,
     EnterSecrets},
    {{"restarts", 0, "R", "restart the gang up to R times when a rank fails"},
     kStarting | kForInit,
     EnterRestarts},
    {{"priority", 0, "P", "higher goes first (0)"}, kStarting, EnterPriority},
    {{"time", 0, "TIME", "stop the job as failed once it has run this long, over all attempts"},
     kStarting | kForInit,
     EnterTime},
    {{"estimate", 0, "TIME",
      "how long the job takes, as far as you know; never stops it, but a short job may start in a "
      "gap before others"},
     kStarting,
     EnterEstimate},
    {{"grace", 0, "TIME", "between SIGTERM and SIGKILL when the job is stopped (30s)"},
     kStarting,
     EnterGrace},
    {{"workdir", 0, "DIR", "working directory of the ranks (the current one)"}, kStarting},
    {{"sync", 0, "=DIR",
      "send a directory with the job (default: the working directory) and start the ranks in it; "
      ".gitignore and .musterignore list what is left out"},
     kStarting},
    {{"sync", 0, "", "send the job file's directory with the job"}, kForInit},
    {{"no-sync", 0, "", "send no code: it is on the nodes already"}, kStarting},
    {{"setup", 0, "SCRIPT",
      "what each node runs once before any rank starts, in the directory that was sent: "
      "\"pip install -r requirements.txt --target $MUSTER_SETUP_DIR\""},
     kStarting,
     EnterSetup},
    {{"outputs", 0, "PATH",
      "a directory or file below the working directory that is kept when an attempt ends, for "
      "jobctl cp; may be repeated"},
     kStarting,
     EnterOutputs},
    {{"image", 0, "IMAGE", "the container image that the ranks run in"},
     kStarting | kForInit,
     EnterImage},
    {{"env-from", 0, "shell",
      "send all of the current environment, also to a coordinator on another host", "shell"},
     kStarting},
    {{"clean-env", 0, "",
      "do not send the current environment, only PATH, HOME and the like, and -e"},
     kStarting},
    {{"accelerate-config", 0, "FILE",
      "take shape and settings from accelerate's default_config.yaml"},
     kStarting},
    {{"tb-dir", 0, "DIR", "also read TensorBoard event files here as metrics; may be repeated"},
     kStarting,
     EnterEventDirectories},
    {{"set", 0, "KEY=VALUE",
      "override a key of the job file: --set resources.processes=4; may be repeated"},
     kForSubmit | kForPlan | kForValidate},
    {{"from", 0, "WHAT",
      "what FILE is if no job file: an sbatch script (one with #! and #SBATCH lines is known "
      "without)",
      "sbatch"},
     kForSubmit | kForPlan | kForValidate},
    {{"ignore", 0, "A,B",
      "of a batch script: leave out these options (array, dependency, …) and commands (lines), "
      "although the job means something else without them"},
     kForSubmit | kForPlan | kForValidate},
    {{"queue-anyway", 0, "", "accept a shape that no registered nodes could hold"},
     kForRun | kForSubmit},
};

// Enters all given flags, in the order of the table.
absl::Status EnterJobFlags(const Arguments& arguments, JobInMaking job);

template <unsigned kCommand>
constexpr size_t kJobFlagsOf = [] {
  size_t count = 0;
  for (const JobFlag& each : kJobFlags) count += (each.commands & kCommand) != 0 ? 1 : 0;
  return count;
}();

// All flags of a command: its part of the table, then its own.
template <unsigned kCommand, size_t kOwn>
constexpr std::array<Flag, kJobFlagsOf<kCommand> + kOwn> WithJobFlags(const Flag (&own)[kOwn]) {
  std::array<Flag, kJobFlagsOf<kCommand> + kOwn> flags;
  size_t at = 0;
  for (const JobFlag& each : kJobFlags)
    if ((each.commands & kCommand) != 0) flags[at++] = each.flag;
  for (const Flag& each : own) flags[at++] = each;
  return flags;
}

}  // namespace muster::client
