// torchrun, python -m torch.distributed.run and .launch, torch_npu_run: flags of
// torch/distributed/run.py and torch_npu/distributed/run.py (2.13).
#include <algorithm>

#include "client/command_line/errors.h"
#include "client/launchers/launchers.h"
#include "common/base/status.h"
#include "common/device_kinds.h"
#include "common/text/strings.h"
#include "common/text/units.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr LaunchFlag kTorchrunFlags[] = {
    {"nnodes", 0, true, kYes},
    {"nproc-per-node", 0, true, kYes},
    {"max-restarts", 0, true, kYes},
    {"role", 0, true, kYes},
    {"module", 'm', false, kYes},
    {"no-python", 0, false, kYes},
    {"log-dir", 0, true, kYes},
    {"signals-to-handle", 0, true, kYes},
    {"shutdown-timeout", 0, true, kYes},
    {"virtual-local-rank", 0, false, kYes},
    {"rdzv-id", 0, true, kYes},
    {"use-env", 0, false, kYes},
    {"redirects", 'r', true, kShown},
    {"tee", 't', true, kShown},
    {"local-ranks-filter", 0, true, kShown},
    {"log-line-prefix-template", 0, true, kShown},
    {"duplicate-stdout-filters", 0, true, kShown},
    {"duplicate-stderr-filters", 0, true, kShown},
    {"rdzv-backend", 0, true, kOurs},
    {"rdzv-endpoint", 0, true, kOurs},
    {"rdzv-conf", 0, true, kOurs},
    {"standalone", 0, false, kYes},
    {"node-rank", 0, true, kOurs},
    {"master-addr", 0, true, kOurs},
    {"master-port", 0, true, kOurs},
    {"local-addr", 0, true, kOurs},
    {"monitor-interval", 0, true, kOurs},
    {"start-method", 0, true, kOurs},
    {"event-log-handler", 0, true, kOurs},
    {"numa-binding", 0, true, kNo,
     "omit it, or bind in the command: numactl --cpunodebind=… python SCRIPT"},
    {"logs-specs", 0, true, kNo, "omit it: it names a Python class in torchrun's own process"},
    {"run-path", 0, false, kNo, "give the script's path without --run-path"},
    {"help", 'h', false, kNo, "ask the launcher itself, without jobctl"},
    {"enable-tiered-parallel-tcpstore", 0, true, kOurs},  // torch_npu_run's alone; the last row
};

// torch_npu's own launcher: torchrun's parser and one flag more (torch_npu/distributed/run.py, 2.13). It
// always chooses the rendezvous backend "parallel", which the coordinator's port stands in for.
bool IsOfTorchNpu(std::string_view launcher) {
  return launcher == "torch_npu_run" || launcher == "torch_npu.distributed.run";
}

std::span<const LaunchFlag> FlagsOf(std::string_view launcher) {
  const std::span<const LaunchFlag> all = kTorchrunFlags;
  return IsOfTorchNpu(launcher) ? all : all.first(all.size() - 1);
}

// PET_<FLAG> is torchrun's environment variable for each flag; the command line takes precedence.
void AddFromEnvironment(const Environment& environment, LaunchFlags* flags) {
  for (const LaunchFlag& flag : kTorchrunFlags) {
    if (flag.fate != kYes || flags->Has(flag.name)) continue;
    std::string variable = "PET_";
    for (const char c : flag.name) variable += c == '-' ? '_' : static_cast<char>(std::toupper(c));
    const std::string value = environment(variable);
    if (value.empty() || (!flag.takes_value && value != "1")) continue;
    flags->values[std::string(flag.name)] = value;
  }
}

absl::Status ReadNodes(std::string_view launcher, const LaunchFlags& flags, LaunchPlan* plan) {
  const std::string text = flags.Get("nnodes", "1");
  const size_t colon = text.find(':');
  const absl::StatusOr<int64_t> least = common::ParseInteger(text.substr(0, colon));
  const absl::StatusOr<int64_t> most =
      colon == std::string::npos ? least : common::ParseInteger(text.substr(colon + 1));
  if (!least.ok() || !most.ok() || *least < 1 || *most < *least || *most > 10'000) {
    return Usage("JC1010",
                 StrCat("--nnodes of ", launcher, " takes N or MIN:MAX, not \"", text, "\""),
                 "--nnodes 2, or --nnodes 1:4");
  }
  plan->min_nodes = static_cast<uint32_t>(*least);
  plan->max_nodes = static_cast<uint32_t>(*most);
  if (flags.Has("standalone")) {
    if (plan->max_nodes > 1) {
      return Usage("JC1010",
                   StrCat("--standalone of ", launcher, " means one node, --nnodes says ", text),
                   "remove one of them");
    }
    plan->min_nodes = plan->max_nodes = 1;
  }
  return absl::OkStatus();
}

absl::Status ReadProcesses(std::string_view launcher, const LaunchFlags& flags, LaunchPlan* plan) {
  const std::string text = flags.Get("nproc-per-node", "1");
  if (text == "auto" || common::FindDeviceKind(text) != nullptr) {
    plan->per_node_of = text;
    if (text != "auto") plan->device_kind = text;
    return absl::OkStatus();
  }
  if (text == "xpu") {
    return Usage("JC1011",
                 StrCat("--nproc-per-node xpu of ", launcher, ": xpu devices are not supported"),
                 StrCat("--nproc-per-node ", common::DeviceKindNames(", "), " or a number"));
  }
  ASSIGN_OR_RETURN(plan->per_node, LaunchNumber(launcher, flags, "nproc-per-node", 1, 1));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LaunchPlan> ReadTorchrun(std::string_view launcher,
                                        std::span<const std::string> words,
                                        const std::vector<std::string>& python,
                                        const Environment& environment) {
  LaunchPlan plan;
  plan.launcher = launcher;
  ASSIGN_OR_RETURN(LaunchFlags flags,
                   ParseLaunchFlags(launcher, words, FlagsOf(launcher), {}, &plan));
  AddFromEnvironment(environment, &flags);
  if (flags.Has("module") && flags.Has("no-python")) {
    return Usage("JC1011", StrCat("-m and --no-python of ", launcher, " are mutually exclusive"),
                 "remove one of them");
  }
  if (flags.script.empty()) {
    return Usage("JC1010", StrCat("the ", launcher, " line names no script"),
                 StrCat("jobctl run -- ", launcher, " --nproc-per-node 2 train.py"));
  }
  RETURN_IF_ERROR(ReadNodes(launcher, flags, &plan));
  RETURN_IF_ERROR(ReadProcesses(launcher, flags, &plan));
  // Its ranks import torch_npu; in a cluster that also has GPUs they would get those.
  if (IsOfTorchNpu(launcher) && plan.device_kind.empty()) plan.device_kind = "npu";
  if (flags.Has("max-restarts")) {
    ASSIGN_OR_RETURN(plan.restarts, LaunchNumber(launcher, flags, "max-restarts", 0, 0));
  }
  if (flags.Has("shutdown-timeout")) {
    ASSIGN_OR_RETURN(const uint32_t seconds,
                     LaunchNumber(launcher, flags, "shutdown-timeout", 0, 30));
    plan.grace_ms = seconds * 1000;
  }
  if (flags.Has("signals-to-handle"))
    plan.env["TORCHELASTIC_SIGNALS_TO_HANDLE"] = flags.Get("signals-to-handle");
  plan.role = flags.Get("role");
  plan.run_id = flags.Get("rdzv-id");
  plan.log_dir = flags.Get("log-dir");
  plan.virtual_local_rank = flags.Has("virtual-local-rank");

  if (!flags.Has("no-python")) {
    plan.command = python;
    plan.command.push_back("-u");
    if (flags.Has("module")) plan.command.push_back("-m");
  }
  plan.command.push_back(flags.script[0]);
  const bool wants_local_rank = launcher == "torch.distributed.launch" && !flags.Has("use-env");
  if (wants_local_rank) plan.command.push_back("--local-rank=${local_rank}");
  plan.command.insert(plan.command.end(), flags.script.begin() + 1, flags.script.end());
  return plan;
}

}  // namespace muster::client
