// accelerate launch: flags of accelerate/commands/launch.py and the environment of
// accelerate/utils/launch.py (1.15).
#include <algorithm>
#include <cctype>

#include "absl/strings/ascii.h"
#include "client/command_line/errors.h"
#include "client/launchers/launchers.h"
#include "common/base/status.h"
#include "common/device_kinds.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

using common::StrCat;

constexpr std::string_view kLauncher = "accelerate launch";
constexpr std::string_view kNoTpu = "omit it: TPUs are not supported";
constexpr std::string_view kNoFilter =
    "select nodes by their devices: --devices, or resources.devices in a job file";

constexpr LaunchFlag kAccelerateFlags[] = {
    {"config-file", 0, true, kYes},
    {"quiet", 'q', false, kYes},
    {"cpu", 0, false, kYes},
    {"use-cpu", 0, false, kYes},
    {"multi-gpu", 0, false, kYes},
    {"mixed-precision", 0, true, kYes},
    {"num-processes", 0, true, kYes},
    {"num-machines", 0, true, kYes},
    {"num-cpu-threads-per-process", 0, true, kYes},
    {"enable-cpu-affinity", 0, false, kYes},
    {"dynamo-use-fullgraph", 0, false, kYes},
    {"dynamo-use-dynamic", 0, false, kYes},
    {"dynamo-use-regional-compilation", 0, false, kYes},
    {"fp8-use-autocast-during-eval", 0, false, kYes},
    {"use-deepspeed", 0, false, kYes},
    {"use-fsdp", 0, false, kYes},
    {"use-parallelism-config", 0, false, kYes},
    {"use-megatron-lm", 0, false, kYes},
    {"gpu-ids", 0, true, kYes},
    {"role", 0, true, kYes},
    {"max-restarts", 0, true, kYes},
    {"module", 'm', false, kYes},
    {"no-python", 0, false, kYes},
    {"debug", 0, false, kYes},
    {"log-dir", 0, true, kYes},
    {"deepspeed-config-file", 0, true, kYes},
    {"zero-stage", 0, true, kYes},
    {"offload-optimizer-device", 0, true, kYes},
    {"offload-param-device", 0, true, kYes},
    {"offload-optimizer-nvme-path", 0, true, kYes},
    {"offload-param-nvme-path", 0, true, kYes},
    {"gradient-accumulation-steps", 0, true, kYes},
    {"gradient-clipping", 0, true, kYes},
    {"zero3-init-flag", 0, true, kYes},
    {"zero3-save-16bit-model", 0, true, kYes},
    {"deepspeed-moe-layer-cls-names", 0, true, kYes},
    {"tee", 't', true, kShown},
    {"machine-rank", 0, true, kOurs},
    {"main-process-ip", 0, true, kOurs},
    {"main-process-port", 0, true, kOurs},
    {"same-network", 0, false, kOurs},
    {"rdzv-backend", 0, true, kOurs},
    {"rdzv-conf", 0, true, kOurs},
    {"monitor-interval", 0, true, kOurs},
    {"mpirun-hostfile", 0, true, kOurs},
    {"deepspeed-hostfile", 0, true, kOurs},
    {"deepspeed-multinode-launcher", 0, true, kOurs},
    {"tpu", 0, false, kNo, kNoTpu},
    {"tpu-cluster", 0, false, kNo, kNoTpu},
    {"no-tpu-cluster", 0, false, kNo, kNoTpu},
    {"tpu-use-sudo", 0, false, kNo, kNoTpu},
    {"vm", 0, true, kNo, kNoTpu},
    {"env", 0, true, kNo, "jobctl run -e NAME=VALUE -- accelerate launch …"},
    {"main-training-function", 0, true, kNo, "call the function at the end of the script"},
    {"downcast-bf16", 0, false, kNo, kNoTpu},
    {"aws-access-key-id", 0, true, kNo, "SageMaker is not supported"},
    {"aws-secret-access-key", 0, true, kNo, "SageMaker is not supported"},
    {"deepspeed-exclusion-filter", 0, true, kNo, kNoFilter},
    {"deepspeed-inclusion-filter", 0, true, kNo, kNoFilter},
};
constexpr std::string_view kPrefixes[] = {"fsdp-", "megatron-lm-", "parallelism-config-", "dynamo-",
                                          "fp8-"};

std::string VariableName(std::string_view flag) {
  std::string name;
  for (const char c : flag)
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

bool Truthy(std::string_view text) {
  const std::string lower = absl::AsciiStrToLower(common::ToAbsl(text));
  return lower == "1" || lower == "true" || lower == "yes" || lower == "on" || lower == "y";
}

void AddDeepSpeed(const LaunchFlags& flags, LaunchPlan* plan) {
  plan->env["ACCELERATE_USE_DEEPSPEED"] = "true";
  plan->env["ACCELERATE_CONFIG_DS_FIELDS"] = "";
  constexpr std::pair<std::string_view, std::string_view> kVariables[] = {
      {"zero-stage", "ACCELERATE_DEEPSPEED_ZERO_STAGE"},
      {"gradient-accumulation-steps", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS"},
      {"gradient-clipping", "ACCELERATE_GRADIENT_CLIPPING"},
      {"offload-optimizer-device", "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE"},
      {"offload-param-device", "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE"},
      {"offload-optimizer-nvme-path", "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_NVME_PATH"},
      {"offload-param-nvme-path", "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_NVME_PATH"},
      {"zero3-init-flag", "ACCELERATE_DEEPSPEED_ZERO3_INIT"},
      {"zero3-save-16bit-model", "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL"},
      {"deepspeed-config-file", "ACCELERATE_DEEPSPEED_CONFIG_FILE"},
      {"deepspeed-moe-layer-cls-names", "ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES"},
  };
  for (const auto& [flag, variable] : kVariables) {
    if (flags.Has(flag)) plan->env[std::string(variable)] = flags.Get(flag);
  }
}

// --fsdp_X, --megatron_lm_X, --parallelism_config_X become variables; --dynamo_X and --fp8_X get
// the prefix ACCELERATE_.
void AddPrefixed(const LaunchFlags& flags, LaunchPlan* plan) {
  for (const auto& [name, value] : flags.values) {
    if (name == "fsdp-transformer-layer-cls-to-wrap") {
      plan->env["FSDP_TRANSFORMER_CLS_TO_WRAP"] = value;
    } else if (name.starts_with("fsdp-")) {
      const bool boolean =
          value == "True" || value == "False" || value == "TRUE" || value == "FALSE";
      plan->env[VariableName(name)] = boolean ? absl::AsciiStrToLower(value) : value;
    } else if (name.starts_with("megatron-lm-") || name.starts_with("parallelism-config-")) {
      plan->env[VariableName(name)] = value;
    } else if (name.starts_with("fp8-")) {
      plan->env["ACCELERATE_" + VariableName(name)] = value == "1" ? "True" : value;
    }
  }
}

void AddDynamo(const LaunchFlags& flags, LaunchPlan* plan) {
  plan->env["ACCELERATE_DYNAMO_BACKEND"] = absl::AsciiStrToUpper(flags.Get("dynamo-backend", "no"));
  plan->env["ACCELERATE_DYNAMO_MODE"] = flags.Get("dynamo-mode", "default");
  const auto boolean = [&](std::string_view flag) {
    return Truthy(flags.Get(flag)) ? "True" : "False";
  };
  plan->env["ACCELERATE_DYNAMO_USE_FULLGRAPH"] = boolean("dynamo-use-fullgraph");
  plan->env["ACCELERATE_DYNAMO_USE_DYNAMIC"] = boolean("dynamo-use-dynamic");
  plan->env["ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION"] =
      boolean("dynamo-use-regional-compilation");
}

absl::Status AddEnvironment(const LaunchFlags& flags, bool cpu, LaunchPlan* plan) {
  const std::string precision = absl::AsciiStrToLower(flags.Get("mixed-precision", "no"));
  if (precision != "no" && precision != "fp16" && precision != "bf16" && precision != "fp8") {
    return Usage("JC1010",
                 StrCat("mixed_precision must be no, fp16, bf16 or fp8, not \"", precision, "\""),
                 "--mixed_precision bf16");
  }
  plan->env["ACCELERATE_MIXED_PRECISION"] = precision;
  AddDynamo(flags, plan);
  if (cpu) {
    plan->env["ACCELERATE_USE_CPU"] = "True";
    plan->env["KMP_AFFINITY"] = "granularity=fine,compact,1,0";
    plan->env["KMP_BLOCKTIME"] = "1";
  }
  if (flags.Has("num-cpu-threads-per-process")) {
    plan->env["OMP_NUM_THREADS"] = flags.Get("num-cpu-threads-per-process");
  }
  if (Truthy(flags.Get("debug"))) plan->env["ACCELERATE_DEBUG_MODE"] = "true";
  if (Truthy(flags.Get("enable-cpu-affinity"))) plan->env["ACCELERATE_CPU_AFFINITY"] = "1";
  if (flags.Has("use-fsdp")) plan->env["ACCELERATE_USE_FSDP"] = "true";
  if (flags.Has("use-megatron-lm")) plan->env["ACCELERATE_USE_MEGATRON_LM"] = "true";
  if (flags.Has("use-parallelism-config")) plan->env["ACCELERATE_USE_PARALLELISM_CONFIG"] = "true";
  AddPrefixed(flags, plan);
  if (flags.Has("use-deepspeed")) AddDeepSpeed(flags, plan);
  return absl::OkStatus();
}

}  // namespace

absl::Status PlanAccelerate(const LaunchFlags& flags, LaunchPlan* plan) {
  const bool cpu = Truthy(flags.Get("cpu")) || Truthy(flags.Get("use-cpu"));
  std::string chosen;
  for (const std::string_view flag : {"cpu", "multi-gpu", "use-deepspeed", "use-fsdp"}) {
    if (!flags.Has(flag)) continue;
    if (!chosen.empty()) {
      return Usage(
          "JC1010",
          StrCat("--", chosen, " and --", flag, " of accelerate launch are mutually exclusive"),
          "remove one of them");
    }
    chosen = flag;
  }
  ASSIGN_OR_RETURN(const uint32_t machines, LaunchNumber(kLauncher, flags, "num-machines", 1, 1));
  const std::string gpu_ids = flags.Get("gpu-ids", "all");
  if (flags.Has("num-processes") && flags.Get("num-processes") != "-1") {
    ASSIGN_OR_RETURN(plan->processes, LaunchNumber(kLauncher, flags, "num-processes", 1, 1));
  } else if (gpu_ids != "all" && !gpu_ids.empty() && !cpu) {
    plan->processes =
        machines * static_cast<uint32_t>(1 + std::count(gpu_ids.begin(), gpu_ids.end(), ','));
  } else if (cpu) {
    plan->processes = machines;
  } else {
    plan->per_node_of = "auto";  // accelerate: as many as there are accelerators
  }
  plan->min_nodes = plan->max_nodes = machines;
  // One machine is accelerate's default, not a request; the ranks may then be spread.
  if (!flags.Has("num-machines"))
    plan->min_nodes = plan->max_nodes = plan->per_node_of.empty() ? 0 : 1;
  if (plan->processes > 0 && plan->processes < machines) {
    return Usage("JC1010",
                 StrCat("num_processes is the total: ", plan->processes, " ranks cannot fill ",
                        machines, " machines"),
                 StrCat("--num_processes ", machines));
  }
  if (cpu) plan->device_kind = common::HostKind().name;
  if (flags.Has("multi-gpu")) plan->device_kind = common::FindAccelerateType("MULTI_GPU")->name;
  if (gpu_ids != "all" && !gpu_ids.empty()) {
    plan->notices.push_back(
        "gpu_ids is only counted: the coordinator decides which GPUs the job gets");
  }
  if (flags.Has("max-restarts")) {
    ASSIGN_OR_RETURN(plan->restarts, LaunchNumber(kLauncher, flags, "max-restarts", 0, 0));
  }
  plan->role = flags.Get("role");
  plan->log_dir = flags.Get("log-dir");
  return AddEnvironment(flags, cpu, plan);
}

absl::StatusOr<LaunchPlan> ReadAccelerate(std::span<const std::string> words,
                                          const std::vector<std::string>& python,
                                          const Environment& environment) {
  LaunchPlan plan;
  plan.launcher = kLauncher;
  ASSIGN_OR_RETURN(LaunchFlags flags,
                   ParseLaunchFlags(kLauncher, words, kAccelerateFlags, kPrefixes, &plan));
  if (flags.Has("module") && flags.Has("no-python")) {
    return Usage("JC1011", "-m and --no_python of accelerate launch are mutually exclusive",
                 "remove one of them");
  }
  if (flags.script.empty()) {
    return Usage("JC1010", "the accelerate launch line names no script",
                 "jobctl run -- accelerate launch --num_processes 2 train.py");
  }
  std::string config = flags.Get("config-file");
  const bool named = !config.empty();
  if (!named) {
    std::string home = environment("HF_HOME");
    if (home.empty()) home = environment("HOME") + "/.cache/huggingface";
    config = home + "/accelerate/default_config.yaml";
  }
  RETURN_IF_ERROR(ReadAccelerateConfig(config, named, &flags, &plan));
  RETURN_IF_ERROR(PlanAccelerate(flags, &plan));
  if (!flags.Has("no-python")) {
    plan.command = python;
    if (flags.Has("module")) plan.command.push_back("-m");
  }
  plan.command.insert(plan.command.end(), flags.script.begin(), flags.script.end());
  return plan;
}

absl::StatusOr<LaunchPlan> PlanFromAccelerateConfig(const std::string& path,
                                                    const std::vector<std::string>& command,
                                                    const Environment&) {
  LaunchPlan plan;
  plan.launcher = "accelerate configuration";
  plan.command = command;
  LaunchFlags flags;
  RETURN_IF_ERROR(ReadAccelerateConfig(path, true, &flags, &plan));
  RETURN_IF_ERROR(PlanAccelerate(flags, &plan));
  return plan;
}

}  // namespace muster::client
