#include "client/compare/configuration.h"

#include <algorithm>
#include <set>

#include "client/text/code_text.h"
#include "client/text/record_text.h"
#include "common/text/strings.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "common/text/word_list.h"

namespace muster::client {
namespace {

using common::StrAppend;
using common::StrCat;

enum Group { kCode, kCommand, kArguments, kShape, kPolicy, kLabels, kRun, kEnvironment };
constexpr std::string_view kNotShown = "(hidden)";  // as `show` prints it
// What a shell sets for itself; the directory has its own field.
constexpr std::string_view kShellsOwn = "_|OLDPWD|PWD|SHLVL";
constexpr std::string_view kEmpty = "(empty)";

bool LooksLikeOption(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && !(word[1] >= '0' && word[1] <= '9') && word[1] != '.';
}

class Fields {
 public:
  void Add(Group group, std::string_view name, const std::string& value) {
    if (!value.empty()) fields_[{group, std::string(name)}] = value;
  }
  // An option may be repeated.
  void Append(Group group, std::string_view name, const std::string& value) {
    std::string& field = fields_[{group, std::string(name)}];
    StrAppend(&field, field.empty() ? "" : " ", value);
  }
  void AddNumber(Group group, std::string_view name, uint64_t value) {
    if (value > 0) Add(group, name, std::to_string(value));
  }
  Configuration Take() { return std::move(fields_); }

 private:
  Configuration fields_;
};

// A field for each option, so that another order or another value of one does not hide in a long
// line. The words before the first option are the command.
void AddCommand(const v1::JobSpec& spec, Fields* fields) {
  const auto& words = spec.command();
  int i = 0;
  for (; i < words.size() && !LooksLikeOption(words[i]); ++i) {
    fields->Append(kCommand, "command", ShellQuote(words[i]));
  }
  for (; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!LooksLikeOption(word)) {
      fields->Append(kArguments, "arguments", ShellQuote(word));
    } else if (const size_t equals = word.find('='); equals != std::string::npos) {
      fields->Append(kArguments, StrCat("argument ", word.substr(0, equals)),
                     word.substr(equals + 1));
    } else if (i + 1 < words.size() && !LooksLikeOption(words[i + 1])) {
      fields->Append(kArguments, StrCat("argument ", word), words[++i]);
    } else {
      fields->Append(kArguments, StrCat("argument ", word), "given");
    }
  }
  fields->Add(kCommand, "directory", DirectoryText(spec));
}

void AddCode(const v1::JobSpec& spec, Fields* fields) {
  fields->Add(kCode, "code", spec.code().tree().substr(0, 12));
  fields->Add(kCode, "commit", CommitText(spec.code()));
  fields->Add(kCode, "container", ContainerText(spec.container()));
  fields->Add(kCode, "setup", SetupText(spec));
  for (const std::string& path : spec.outputs())
    fields->Add(kCode, StrCat("output ", path), "kept");
}

void AddShape(const v1::JobSpec& spec, Fields* fields) {
  const v1::Shape& shape = spec.shape();
  fields->AddNumber(kShape, "processes", shape.processes());
  fields->AddNumber(kShape, "ranks per node", shape.per_node());
  fields->AddNumber(kShape, "nodes at least", shape.min_nodes());
  fields->AddNumber(kShape, "nodes at most", shape.max_nodes());
  const v1::DeviceConstraint& device = shape.device();
  fields->Add(kShape, "device kind asked for", device.kind());
  fields->Add(kShape, "device model asked for", device.model());
  fields->AddNumber(kShape, "devices per rank", device.count_per_rank());
  if (device.min_memory_bytes() > 0) {
    fields->Add(kShape, "device memory at least", common::HumanBytes(device.min_memory_bytes()));
  }
  if (shape.limits().cpu_millis() > 0) {
    fields->Add(kShape, "cpus per rank at most", common::Thousandths(shape.limits().cpu_millis()));
  }
  if (shape.limits().memory_bytes() > 0) {
    fields->Add(kShape, "memory per rank at most",
                common::ExactBytes(shape.limits().memory_bytes()));
  }
  if (spec.virtual_local_rank()) fields->Add(kShape, "virtual local rank", "yes");
  fields->Add(kShape, "role", spec.role());
}

void AddPolicies(const v1::JobSpec& spec, Fields* fields) {
  if (spec.priority() != 0) fields->Add(kPolicy, "priority", std::to_string(spec.priority()));
  fields->AddNumber(kPolicy, "restarts", spec.restarts());
  fields->AddNumber(kPolicy, "restarts after lost nodes", spec.node_loss_restarts());
  fields->AddNumber(kPolicy, "grace in ms", spec.grace_ms());
  fields->AddNumber(kPolicy, "most duration in ms", spec.max_duration_ms());
  fields->AddNumber(kPolicy, "estimate in ms", spec.estimate_ms());
  if (spec.has_preemptible())
    fields->Add(kPolicy, "preemptible", spec.preemptible() ? "yes" : "no");
  fields->AddNumber(kPolicy, "notice signal", spec.notice_signal());
  fields->AddNumber(kPolicy, "checkpoints kept", spec.checkpoint().keep());
  if (spec.checkpoint().writers() == v1::CHECKPOINT_WRITERS_ALL) {
    fields->Add(kPolicy, "checkpoint writers", "all");
  }
  if (spec.logs() == v1::LOG_POLICY_BLOCK) fields->Add(kPolicy, "logs", "block");
  if (spec.logs_keep_bytes() > 0)
    fields->Add(kPolicy, "logs kept", common::ExactBytes(spec.logs_keep_bytes()));
  fields->Add(kPolicy, "metric", spec.metric());
  if (spec.on_node_loss() == v1::ON_NODE_LOSS_WAIT) fields->Add(kPolicy, "on node loss", "wait");
  if (spec.resume_step() > 0) {
    fields->Add(kPolicy, "started from step", std::to_string(spec.resume_step()));
  }
  if (!spec.project().empty()) fields->Add(kPolicy, "project", spec.project());
  for (const std::string& name : spec.secrets())
    fields->Add(kPolicy, StrCat("secret ", name), "used");
  for (const auto& [name, value] : spec.labels()) {
    fields->Add(kLabels, StrCat("label ", name), value.empty() ? std::string(kEmpty) : value);
  }
}

const v1::NodeRecord* FindNode(const std::string& name, const v1::ListNodesResponse& nodes) {
  for (const v1::NodeView& view : nodes.nodes()) {
    if (view.record().facts().name() == name) return &view.record();
  }
  return nullptr;
}

std::string Joined(const std::set<std::string>& words) {
  std::string out;
  for (const std::string& word : words) StrAppend(&out, out.empty() ? "" : ", ", word);
  return out;
}

// What the newest attempt got.
void AddAttemptFields(const v1::JobRecord& record, const v1::ListNodesResponse& nodes,
                      Fields* fields) {
  if (record.attempts().empty()) return;
  const v1::Attempt& attempt = *record.attempts().rbegin();
  fields->AddNumber(kRun, "world size", attempt.world_size());
  fields->AddNumber(kRun, "attempts", attempt.number() + 1);
  std::set<std::string> names, models, versions;
  std::string split;
  for (const v1::NodePart& part : attempt.parts()) {
    names.insert(part.node());
    StrAppend(&split, split.empty() ? "" : " + ", part.local_world_size());
    const v1::NodeRecord* node = FindNode(part.node(), nodes);
    if (node == nullptr) continue;
    versions.insert(node->facts().version());
    for (const v1::Device& device : node->facts().devices()) {
      const bool used = device.kind() == part.device_kind() &&
                        std::find(part.device_indexes().begin(), part.device_indexes().end(),
                                  device.index()) != part.device_indexes().end();
      if (used && !device.model().empty()) models.insert(device.model());
    }
  }
  fields->Add(kRun, "ranks on each node", split);
  fields->Add(kRun, "nodes", Joined(names));
  fields->Add(kRun, "device kind", record.resolved_device_kind());
  fields->Add(kRun, "device models", Joined(models));
  fields->Add(kRun, "workers' version", Joined(versions));
}

// A value as it is shown.
std::string ShownValue(const std::string& field, const std::string& value) {
  const bool is_secret = field.starts_with("env ") && common::LooksSecret(field);
  return is_secret && value != kEmpty ? std::string(kNotShown) : value;
}

}  // namespace

Configuration ConfigurationOf(const v1::JobRecord& record, const v1::ListNodesResponse& nodes) {
  Fields fields;
  const v1::JobSpec& spec = record.spec();
  AddCode(spec, &fields);
  AddCommand(spec, &fields);
  AddShape(spec, &fields);
  AddPolicies(spec, &fields);
  AddAttemptFields(record, nodes, &fields);
  for (const auto& [name, value] : spec.env()) {
    if (common::HasWord(kShellsOwn, name)) continue;
    fields.Add(kEnvironment, StrCat("env ", name), value.empty() ? std::string(kEmpty) : value);
  }
  return fields.Take();
}

std::vector<ConfigurationDifference> DifferencesOf(const Configuration& a, const Configuration& b) {
  std::set<std::pair<int, std::string>> names;
  for (const auto& [name, value] : a) names.insert(name);
  for (const auto& [name, value] : b) names.insert(name);
  std::vector<ConfigurationDifference> differences;
  for (const auto& name : names) {
    const auto in_a = a.find(name);
    const auto in_b = b.find(name);
    if (in_a != a.end() && in_b != b.end() && in_a->second == in_b->second) continue;
    ConfigurationDifference difference{.field = name.second};
    if (in_a != a.end()) difference.a = ShownValue(name.second, in_a->second);
    if (in_b != b.end()) difference.b = ShownValue(name.second, in_b->second);
    differences.push_back(std::move(difference));
  }
  return differences;
}

}  // namespace muster::client
