#include "muster/exported/exported_model.h"

#include <torch/types.h>

#include <algorithm>
#include <optional>
#include <ostream>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/sha256.h"
#include "checkpoint/mapped_tensors.h"
#include "checkpoint/source_file.h"
#include "exported/exported_archive.h"
#include "exported/graph_compiler.h"
#include "exported/input_rules.h"
#include "exported/module_tree.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

using InputKind = ProgramInput::Kind;
using OutputKind = ProgramOutput::Kind;

MappedTensors::Place place_of(const ExportedWeight& weight) {
  return {weight.dtype,          weight.shape,         weight.strides,
          weight.storage_offset, weight.storage_begin, weight.storage_bytes};
}

// A number as a tensor; None as an undefined one.
at::Tensor output_tensor(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor();
  if (value.isScalar()) return at::scalar_tensor(value.toScalar());
  return {};
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text.empty() ? "nothing" : text;
}

}  // namespace

const at::Tensor& ExportedOutput::operator[](std::string_view name) const {
  for (size_t i = 0; i < names.size() && i < tensors.size(); ++i) {
    if (names[i] == name) return tensors[i];
  }
  throw Error("the net returns no '" + std::string(name) + "', but " + listed(names));
}

const at::Tensor& ExportedOutput::tensor() const {
  if (tensors.size() == 1) return tensors[0];
  throw Error("the net returns " + std::to_string(tensors.size()) + " tensors: " + listed(names) +
              "; fix: choose one by its name, output[\"…\"]");
}

namespace {

// One graph with the tensors that it reads. Tensors are handles: they stay the module's own when it is moved or sharded.
struct Mode {
  Mode(ExportedProgram exported, const std::string& where)
      : program(std::move(exported)), rules(program, where) {}

  ExportedProgram program;
  InputRules rules;
  std::vector<at::Tensor> weights;    // by input; undefined for those of a caller
  std::vector<bool> is_unregistered;  // those that the module does not move
  ModeEvidence evidence;
  std::optional<CompiledGraph> graph;
};

// A parameter as it was loaded; tied ones once.
struct Loaded {
  at::Tensor tensor;
  int64_t version = 0;
  const void* memory = nullptr;

  bool is_unchanged() const {
    return tensor.is_cpu() && tensor._version() == version && tensor.const_data_ptr() == memory;
  }
};

}  // namespace

struct ExportedModelImpl::State {
  State(const std::string& path, const ExportedModelOptions& given) : file(path), options(given) {}

  const std::string& path() const { return file.path(); }

  SourceFile file;
  std::vector<Loaded> loaded;
  ExportedModelOptions options;
  std::optional<ModuleTree> tree;
  std::map<std::string, at::Tensor, std::less<>> tensors;  // of the module, by name
  // Of one place in the file, one dtype and one kind: tied weights, and what both modes read and change, are one tensor.
  std::map<
      std::tuple<uint64_t, std::string, bool, int64_t, std::vector<int64_t>, std::vector<int64_t>>,
      at::Tensor>
      by_place;
  std::optional<Mode> training;
  std::optional<Mode> evaluation;

  // ---- loading ----

  at::Tensor tensor_of(const ExportedWeight& weight, const std::string& name,
                       MappedTensors& weights);
  void register_tensors(torch::nn::Module& root, const ExportedArchive& archive,
                        MappedTensors& weights);
  Mode make_mode(ExportedProgram program, const ExportedWeights& constants, MappedTensors& weights);

  // ---- calls ----

  void check_mode(const Mode& mode, bool is_training) const;
  at::Device device(const std::vector<at::Tensor>& inputs) const;
  ExportedOutput run(Mode& mode, const std::vector<at::Tensor>& inputs, bool is_training,
                     std::shared_ptr<const torch::nn::Module> net) const;
  std::vector<c10::IValue> bind(Mode& mode, std::vector<c10::IValue> given,
                                at::Device device) const;
  at::Tensor changed_tensor(const Mode& mode, const ProgramOutput& place,
                            const std::vector<at::Tensor>& inputs) const;
};

at::Tensor ExportedModelImpl::State::tensor_of(const ExportedWeight& weight,
                                               const std::string& name, MappedTensors& weights) {
  if (weight.storage_bytes == 0) return weights.tensor(place_of(weight), name);
  at::Tensor& tensor = by_place[{weight.storage_begin, weight.dtype, weight.is_parameter,
                                 weight.storage_offset, weight.shape, weight.strides}];
  if (!tensor.defined()) tensor = weights.tensor(place_of(weight), name);
  return tensor;
}

// In the order of Python's state_dict, which is that of the graph's inputs.
void ExportedModelImpl::State::register_tensors(torch::nn::Module& root,
                                                const ExportedArchive& archive,
                                                MappedTensors& weights) {
  // In the order of Python's parameters.
  std::vector<std::string> modules;
  for (const ProgramInput& input : archive.program.inputs) {
    if (input.kind == InputKind::parameter) modules.push_back(split_name(input.name).first);
  }
  modules.insert(modules.end(), archive.program.modules.begin(), archive.program.modules.end());
  for (const auto& [name, weight] : archive.weights) modules.push_back(split_name(name).first);
  tree.emplace(root, modules);
  std::unordered_set<const c10::TensorImpl*> seen;
  const auto add = [&](const std::string& name, bool is_parameter) {
    const ExportedWeight& weight = archive.weights.find(name)->second;
    if (tensors.contains(name)) return;
    const at::Tensor tensor = tensor_of(weight, name, weights);
    const auto [parent, own] = split_name(name);
    torch::nn::Module& module = tree->at(parent);
    if (is_parameter) {
      module.register_parameter(
          own, tensor, weight.requires_grad && (tensor.is_floating_point() || tensor.is_complex()));
      if (seen.insert(tensor.unsafeGetTensorImpl()).second)
        loaded.push_back({tensor, tensor._version(), tensor.const_data_ptr()});
    } else {
      module.register_buffer(own, tensor);
    }
    tensors[name] = tensor;
  };
  for (const ProgramInput& input : archive.program.inputs) {
    if (input.kind == InputKind::parameter) add(input.name, true);
    if (input.kind == InputKind::buffer && input.persistent) add(input.name, false);
  }
  // Those that the graph does not use.
  for (const auto& [name, weight] : archive.weights) add(name, weight.is_parameter);
}

Mode ExportedModelImpl::State::make_mode(ExportedProgram program, const ExportedWeights& constants,
                                         MappedTensors& weights) {
  Mode mode(std::move(program), path());
  std::vector<uint32_t> slots;
  for (const ProgramInput& input : mode.program.inputs) {
    const bool is_user = input.kind == InputKind::user;
    const auto known = tensors.find(input.name);
    const bool is_saved =
        input.kind == InputKind::parameter || (input.kind == InputKind::buffer && input.persistent);
    at::Tensor tensor;
    if (!is_user) {
      slots.push_back(input.value.slot());
      tensor = is_saved ? known->second
                        : tensor_of(constants.find(input.name)->second, input.name, weights);
    }
    mode.weights.push_back(tensor);
    mode.is_unregistered.push_back(!is_user && !is_saved);
  }
  const CompileOptions compile{
      .where = path(),
      .allowed_operators = options.allowed_operators,
      .module_at = [this](const std::string& name) { return &tree->at(name); },
      .blocks = options.checkpoint_blocks ? tree->blocks() : std::set<std::string, std::less<>>(),
  };
  mode.graph.emplace(mode.program.graph, compile, slots, mode.evidence);
  for (const ProgramOutput& output : mode.program.outputs) {
    const bool changes_weight =
        output.kind == OutputKind::buffer_change || output.kind == OutputKind::parameter_change;
    if (changes_weight && mode.evidence.fixed.empty())
      mode.evidence.fixed = "change of " + output.name;
  }
  mode.program.graph = {};
  return mode;
}

void ExportedModelImpl::State::check_mode(const Mode& mode, bool is_training) const {
  const ModeEvidence& evidence = mode.evidence;
  if (evaluation.has_value()) return;
  const std::string fix =
      "; fix: export both modes with python -m muster.export, or call torch.export.export in the "
      "mode that you need";
  if (is_training && evidence.training.empty() && !evidence.evaluation.empty()) {
    throw Error(path() + " was exported in evaluation mode: its " + evidence.evaluation +
                " does not train (call eval() to evaluate it)" + fix);
  }
  if (!is_training && !evidence.fixed.empty()) {
    throw Error(path() + " was exported in one mode, and whether its " + evidence.fixed +
                " is the same in evaluation mode is not known" + fix);
  }
}

at::Device ExportedModelImpl::State::device(const std::vector<at::Tensor>& inputs) const {
  for (const auto& [name, tensor] : tensors) return tensor.device();
  for (const at::Tensor& input : inputs) return input.device();
  return at::kCPU;
}

std::vector<c10::IValue> ExportedModelImpl::State::bind(Mode& mode, std::vector<c10::IValue> given,
                                                        at::Device device) const {
  std::vector<c10::IValue> values;
  values.reserve(mode.weights.size());
  size_t next = 0;
  for (size_t i = 0; i < mode.weights.size(); ++i) {
    if (mode.program.inputs[i].kind == InputKind::user) {
      // Constants of the export have no slot, and nothing reads them.
      values.push_back(mode.program.inputs[i].value.is_slot() ? std::move(given.at(next++))
                                                              : c10::IValue());
      continue;
    }
    const at::Tensor& tensor = mode.weights[i];
    if (mode.is_unregistered[i] && tensor.device() != device)
      assign_value(tensor, tensor.to(device));
    values.emplace_back(tensor);
  }
  return values;
}

ExportedOutput ExportedModelImpl::State::run(Mode& mode, const std::vector<at::Tensor>& inputs,
                                             bool is_training,
                                             std::shared_ptr<const torch::nn::Module> net) const {
  check_mode(mode, is_training);
  const RunContext context{device(inputs), options.checkpoint_blocks && is_training, net};
  const std::vector<c10::IValue> results =
      mode.graph->run(context, bind(mode, mode.rules.check(inputs), context.device));
  ExportedOutput output;
  for (size_t i = 0; i < mode.program.outputs.size(); ++i) {
    const ProgramOutput& place = mode.program.outputs[i];
    if (place.kind == OutputKind::user) {
      output.tensors.push_back(output_tensor(results.at(i)));
      output.names.push_back(place.name);
    } else {
      const torch::NoGradGuard no_grad;
      changed_tensor(mode, place, inputs).copy_(results.at(i).toTensor());
    }
  }
  return output;
}

// What a graph without in-place operators changes.
at::Tensor ExportedModelImpl::State::changed_tensor(const Mode& mode, const ProgramOutput& place,
                                                    const std::vector<at::Tensor>& inputs) const {
  size_t given = 0;
  for (size_t i = 0; i < mode.program.inputs.size(); ++i) {
    const ProgramInput& input = mode.program.inputs[i];
    const bool is_user = input.kind == InputKind::user;
    const std::string& name = is_user ? input.graph_name : input.name;
    if (name == place.name && is_user == (place.kind == OutputKind::input_change))
      return is_user ? inputs.at(given) : mode.weights[i];
    given += is_user && input.value.is_slot() ? 1 : 0;
  }
  throw Error(path() + ": its graph changes '" + place.name + "', which it does not take");
}

ExportedModelImpl::ExportedModelImpl(const std::string& path, const ExportedModelOptions& options)
    : torch::nn::Module("ExportedModel"), state_(std::make_unique<State>(path, options)) {
  ExportedArchive archive = read_exported_archive(state_->file.bytes(), path);
  try {
    load(archive);
  } catch (const c10::Error& error) {  // of a name or a shape that LibTorch refuses
    throw FormatError(path + ": " + error.what_without_backtrace());
  }
  state_->by_place.clear();
}

void ExportedModelImpl::load(ExportedArchive& archive) {
  MappedTensors weights(state_->file);
  state_->register_tensors(*this, archive, weights);
  state_->training.emplace(
      state_->make_mode(std::move(archive.program), archive.constants, weights));
  if (archive.evaluation.has_value()) {
    state_->evaluation.emplace(
        state_->make_mode(std::move(*archive.evaluation), archive.evaluation_constants, weights));
  }
}

ExportedModelImpl::~ExportedModelImpl() = default;

ExportedOutput ExportedModelImpl::forward(const std::vector<at::Tensor>& inputs) {
  const bool has_other = state_->evaluation.has_value() && !is_training();
  Mode& mode = has_other ? *state_->evaluation : *state_->training;
  return state_->run(mode, inputs, is_training(), weak_from_this().lock());
}

ExportedOutput ExportedModelImpl::forward(const std::map<std::string, at::Tensor>& inputs) {
  std::vector<at::Tensor> ordered;
  for (const std::string& name : input_names()) {
    const auto found = inputs.find(name);
    if (found == inputs.end()) {
      throw std::invalid_argument("input '" + name + "' is missing; the net takes " +
                                  listed(input_names()));
    }
    ordered.push_back(found->second);
  }
  if (ordered.size() == inputs.size()) return forward(ordered);
  for (const auto& [name, tensor] : inputs) {
    const std::vector<std::string>& names = input_names();
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw std::invalid_argument("the net has no input '" + name + "', but " + listed(names));
    }
  }
  return forward(ordered);
}

std::string ExportedModelImpl::unchanged_weights() const {
  for (const Loaded& each : state_->loaded) {
    if (!each.is_unchanged()) return "";
  }
  // The end of the file: the directory of the zip, with the sizes and sums of all records.
  constexpr uint64_t kBytes = 16 << 20;
  const SourceFile& file = state_->file;
  std::string end(std::min(file.size(), kBytes), '\0');
  read_at(file.fd(), file.path(), file.size() - end.size(), end.data(), end.size());
  Sha256 hash;
  hash.update(end.data(), end.size());
  return hash.hex_digest();
}

std::function<void(const PlaceValue&)> ExportedModelImpl::leave_weights_in_file() {
  auto values = std::make_shared<std::vector<std::pair<at::Tensor, at::Tensor>>>();
  const torch::NoGradGuard no_grad;
  for (const Loaded& each : state_->loaded) {
    const at::Tensor& tensor = each.tensor;
    values->emplace_back(tensor, tensor.detach());
    assign_value(tensor, at::empty_strided(tensor.sizes(), tensor.strides(),
                                           tensor.options().device(at::kMeta)));
  }
  return [values](const PlaceValue& place) {
    for (auto& [tensor, value] : *values) place(tensor, std::exchange(value, at::Tensor()));
  };
}

const std::vector<std::string>& ExportedModelImpl::input_names() const {
  return state_->training->rules.names();
}

const std::string& ExportedModelImpl::torch_version() const {
  return state_->training->program.torch_version;
}

void ExportedModelImpl::pretty_print(std::ostream& stream) const {
  stream << "muster::ExportedModel(" << state_->path() << ")";
}

}  // namespace muster
