#include "client/launchers/srun_options.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace muster::client {
namespace {

constexpr std::string_view kLettersWithValue = "ABCDGJLMNSTWcdeimnopqrtwx";
constexpr std::string_view kLettersOfFlags = "EHIKOQVXZkhlsuv";

constexpr std::string_view kWithValue[] = {"account",
                                           "acctg-freq",
                                           "bb",
                                           "bbf",
                                           "begin",
                                           "chdir",
                                           "cluster-constraint",
                                           "clusters",
                                           "comment",
                                           "constraint",
                                           "container",
                                           "container-id",
                                           "core-spec",
                                           "cores-per-socket",
                                           "cpu-bind",
                                           "cpu-freq",
                                           "cpus-per-gpu",
                                           "cpus-per-task",
                                           "deadline",
                                           "delay-boot",
                                           "dependency",
                                           "distribution",
                                           "epilog",
                                           "error",
                                           "exclude",
                                           "export",
                                           "export-file",
                                           "extra",
                                           "extra-node-info",
                                           "gid",
                                           "gpu-bind",
                                           "gpu-freq",
                                           "gpus",
                                           "gpus-per-node",
                                           "gpus-per-socket",
                                           "gpus-per-task",
                                           "gres",
                                           "gres-flags",
                                           "het-group",
                                           "hint",
                                           "input",
                                           "job-name",
                                           "jobid",
                                           "licenses",
                                           "mail-type",
                                           "mail-user",
                                           "mcs-label",
                                           "mem",
                                           "mem-bind",
                                           "mem-per-cpu",
                                           "mem-per-gpu",
                                           "mincpus",
                                           "mpi",
                                           "msg-timeout",
                                           "network",
                                           "nodefile",
                                           "nodelist",
                                           "nodes",
                                           "ntasks",
                                           "ntasks-per-core",
                                           "ntasks-per-gpu",
                                           "ntasks-per-node",
                                           "ntasks-per-socket",
                                           "ntasks-per-tres",
                                           "open-mode",
                                           "output",
                                           "partition",
                                           "power",
                                           "prefer",
                                           "priority",
                                           "profile",
                                           "prolog",
                                           "qos",
                                           "relative",
                                           "reservation",
                                           "signal",
                                           "slurmd-debug",
                                           "sockets-per-node",
                                           "switches",
                                           "task-epilog",
                                           "task-prolog",
                                           "thread-spec",
                                           "threads",
                                           "threads-per-core",
                                           "time",
                                           "time-min",
                                           "tmp",
                                           "tree-width",
                                           "treewidth",
                                           "tres-bind",
                                           "tres-per-task",
                                           "uid",
                                           "wait",
                                           "wckey"};

constexpr std::string_view kFlags[] = {"bcast",
                                       "contiguous",
                                       "disable-status",
                                       "exact",
                                       "exclusive",
                                       "hold",
                                       "immediate",
                                       "interactive",
                                       "kill-on-bad-exit",
                                       "label",
                                       "multi-prog",
                                       "nice",
                                       "no-allocate",
                                       "no-bell",
                                       "no-kill",
                                       "overcommit",
                                       "overlap",
                                       "oversubscribe",
                                       "preserve-env",
                                       "propagate",
                                       "pty",
                                       "quiet",
                                       "quit-on-interrupt",
                                       "reboot",
                                       "send-libs",
                                       "share",
                                       "spread-job",
                                       "test-only",
                                       "unbuffered",
                                       "use-min-nodes",
                                       "verbose",
                                       "whole",
                                       "x11"};

template <size_t N>
bool HasName(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

SrunOption KindOfSrunOption(std::string_view name) {
  const bool is_letter = name.size() == 1;
  const auto has = [&](std::string_view letters, const auto& names) {
    return is_letter ? letters.find(name[0]) != std::string_view::npos : HasName(names, name);
  };
  if (has(kLettersWithValue, kWithValue)) return SrunOption::kTakesValue;
  return has(kLettersOfFlags, kFlags) ? SrunOption::kFlag : SrunOption::kUnknown;
}

}  // namespace muster::client
