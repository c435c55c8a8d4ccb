// accelerate's default_config.yaml (or the same as JSON, which is a subset of YAML): the keys of
// accelerate/commands/config.
#include <unistd.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "client/command_line/errors.h"
#include "client/job_file/yaml.h"
#include "client/launchers/launchers.h"
#include "common/base/status.h"
#include "common/device_kinds.h"
#include "common/files/files.h"
#include "common/text/strings.h"

namespace muster::client {
namespace {

using common::StrCat;

std::string FlagName(std::string_view key) {
  std::string name(key);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

// The command line takes precedence over the file.
void SetDefault(LaunchFlags* flags, std::string name, std::string value) {
  flags->values.emplace(std::move(name), std::move(value));
}

bool IsTrue(const YamlNode& node) {
  const std::string text = absl::AsciiStrToLower(node.text);
  return text == "true" || text == "yes" || text == "1";
}

// fsdp_config, megatron_lm_config, …: the prefix is optional in the sub-keys.
void TakeSection(const YamlNode& section, std::string_view prefix, LaunchFlags* flags) {
  for (const YamlNode::Entry& entry : section.entries) {
    if (entry.value.kind != YamlNode::Kind::kScalar) continue;
    std::string name = FlagName(entry.key);
    if (!name.starts_with(prefix)) name = StrCat(prefix, name);
    SetDefault(flags, std::move(name), entry.value.text);
  }
}

absl::Status TakeDistributedType(const std::string& path, const YamlNode& node, LaunchFlags* flags,
                                 LaunchPlan* plan) {
  const std::string type = absl::AsciiStrToUpper(node.text);
  const bool placed_by_flags = flags->Has("cpu") || flags->Has("multi-gpu");
  if (type == "NO") {
    if (!placed_by_flags) SetDefault(flags, "num-processes", "1");
    return absl::OkStatus();
  }
  constexpr std::pair<std::string_view, std::string_view> kWays[] = {
      {"FSDP", "use-fsdp"}, {"DEEPSPEED", "use-deepspeed"}, {"MEGATRON_LM", "use-megatron-lm"}};
  const auto way = std::find_if(std::begin(kWays), std::end(kWays),
                                [&](const auto& each) { return each.first == type; });
  const common::DeviceKind* kind =
      common::FindAccelerateType(way == std::end(kWays) ? type : "MULTI_GPU");
  if (kind == nullptr) {
    std::string types = "NO";
    for (const common::DeviceKind& each : common::DeviceKinds()) {
      if (!each.accelerate_type.empty()) common::StrAppend(&types, ", ", each.accelerate_type);
    }
    return Usage("JC1012",
                 StrCat(path, ":", node.line, ":", node.column, ": distributed_type ", node.text,
                        " is not supported"),
                 StrCat("use ", types, ", FSDP, DEEPSPEED or MEGATRON_LM"));
  }
  if (kind->is_host) {
    if (!placed_by_flags) SetDefault(flags, "use-cpu", "true");
  } else if (!placed_by_flags && plan->device_kind.empty()) {
    plan->device_kind = kind->name;
  }
  if (way != std::end(kWays)) SetDefault(flags, std::string(way->second), "1");
  return absl::OkStatus();
}

absl::Status TakeKey(const std::string& path, const YamlNode::Entry& entry, LaunchFlags* flags,
                     LaunchPlan* plan, std::vector<std::string>* ignored) {
  constexpr std::string_view kPlain[] = {"num_processes",   "num_machines",        "gpu_ids",
                                         "mixed_precision", "enable_cpu_affinity", "debug",
                                         "use_cpu",         "max_restarts"};
  constexpr std::pair<std::string_view, std::string_view> kSections[] = {
      {"fsdp_config", "fsdp-"},
      {"fp8_config", "fp8-"},
      {"dynamo_config", "dynamo-"},
      {"megatron_lm_config", "megatron-lm-"},
      {"parallelism_config", "parallelism-config-"},
      {"deepspeed_config", ""}};
  const std::string& key = entry.key;
  const YamlNode& value = entry.value;
  if (value.kind == YamlNode::Kind::kNull) return absl::OkStatus();
  if (key == "compute_environment") {
    if (value.text == "LOCAL_MACHINE") return absl::OkStatus();
    return Usage(
        "JC1012",
        StrCat(path, ":", value.line, ": compute_environment ", value.text, " is not supported"),
        "use LOCAL_MACHINE");
  }
  if (key == "distributed_type") return TakeDistributedType(path, value, flags, plan);
  if (key == "fp16") {
    if (IsTrue(value)) SetDefault(flags, "mixed-precision", "fp16");
    return absl::OkStatus();
  }
  if (key == "dynamo_backend") {
    SetDefault(flags, "dynamo-backend", value.text);
    return absl::OkStatus();
  }
  if (std::find(std::begin(kPlain), std::end(kPlain), key) != std::end(kPlain)) {
    const bool is_switch = key == "debug" || key == "use_cpu" || key == "enable_cpu_affinity";
    if (!is_switch || IsTrue(value)) SetDefault(flags, FlagName(key), value.text);
    return absl::OkStatus();
  }
  for (const auto& [name, prefix] : kSections) {
    if (key != name) continue;
    TakeSection(value, prefix, flags);
    if (name == "parallelism_config" && !value.entries.empty())
      SetDefault(flags, "use-parallelism-config", "1");
    return absl::OkStatus();
  }
  ignored->push_back(key);
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadAccelerateConfig(const std::string& path, bool must_exist, LaunchFlags* flags,
                                  LaunchPlan* plan) {
  if (!must_exist && access(path.c_str(), F_OK) != 0) return absl::OkStatus();
  const absl::StatusOr<std::string> content = common::ReadFileOrPipe(path, 256 * 1024);
  if (!content.ok()) {
    return Usage("JC1012",
                 StrCat("the accelerate configuration cannot be read: ",
                        common::FromAbsl(content.status().message())),
                 "give the path of an existing file, or pass the values as flags");
  }
  std::vector<YamlProblem> problems;
  const YamlNode root = ParseYaml(*content, &problems, true);
  if (problems.empty() && root.Find("distributed_type") == nullptr) {
    problems.push_back({1, 1, "the key distributed_type is missing"});
  }
  if (!problems.empty()) {
    return Usage(
        "JC1012",
        StrCat("the accelerate configuration has errors\n", FormatProblems(path, problems)),
        StrCat("correct ", path, ", or regenerate it with `accelerate config`"));
  }
  std::vector<std::string> ignored;
  for (const YamlNode::Entry& entry : root.entries) {
    RETURN_IF_ERROR(TakeKey(path, entry, flags, plan, &ignored));
  }
  // A device kind on the command line takes precedence over distributed_type.
  if (flags->Has("cpu") || flags->Has("use-cpu")) plan->device_kind = common::HostKind().name;
  if (!ignored.empty()) {
    plan->notices.push_back(StrCat("ignored in ", path, ": ", absl::StrJoin(ignored, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace muster::client
