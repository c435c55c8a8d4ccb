#include "exported/graph_compiler.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "base/shown_text.h"
#include "exported/block_step.h"
#include "exported/graph_arguments.h"
#include "exported/graph_effects.h"
#include "exported/number_step.h"
#include "exported/operator_rules.h"
#include "exported/operator_step.h"
#include "exported/region_steps.h"
#include "muster/base/errors.h"

namespace muster {
namespace {

constexpr std::string_view kOperators = "torch.ops.";
constexpr std::string_view kRegions = "torch.ops.higher_order.";
constexpr std::string_view kCounter = "num_batches_tracked";
constexpr std::string_view kEvaluationNorm = "_native_batch_norm_legit_no_training";

struct OperatorName {
  std::string space, name, overload;  // "aten", "add", "Tensor"
  std::string full() const { return space + "::" + name; }
};

// "torch.ops.aten.add.Tensor"; the overload without a name is "default".
OperatorName operator_name(std::string_view target) {
  target.remove_prefix(kOperators.size());
  const size_t first = std::min(target.find('.'), target.size());
  const size_t last = std::min(target.rfind('.'), target.size());
  if (last <= first) return {std::string(target)};
  const std::string_view overload = target.substr(last + 1);
  return {std::string(target.substr(0, first)),
          std::string(target.substr(first + 1, last - first - 1)),
          overload == "default" ? "" : std::string(overload)};
}

// With the items of lists in their places.
std::vector<GraphArgument> flattened(const std::vector<GraphArgument>& arguments) {
  std::vector<GraphArgument> flat;
  for (const GraphArgument& argument : arguments) {
    if (argument.kind == GraphArgument::Kind::list) {
      flat.insert(flat.end(), argument.items.begin(), argument.items.end());
    } else {
      flat.push_back(argument);
    }
  }
  return flat;
}

class Compiler {
 public:
  Compiler(const ExportedGraph& graph, const CompileOptions& options,
           const std::vector<uint32_t>& weight_slots, ModeEvidence& evidence)
      : graph_(graph),
        options_(options),
        weights_(weight_slots.begin(), weight_slots.end()),
        evidence_(evidence) {}

  std::vector<size_t> written_inputs;  // after steps()

  GraphSteps steps() {
    GraphSteps steps;
    for (const GraphNode& node : graph_.nodes) steps.push_back(step_of(node));
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const bool is_written =
          graph_.inputs[i].is_slot() && effects_.is_written(graph_.inputs[i].slot());
      if (is_written) written_inputs.push_back(i);
    }
    set_last_uses(steps);
    if (options_.blocks.empty()) return steps;
    return with_blocks(std::move(steps));
  }

 private:
  std::string where(const GraphNode& node) const {
    return options_.where + ": node '" + shown_text(node.name) + "' (" + shown_text(node.target) +
           ")";
  }
  // For messages of a call: "aten::linear of layers.0.attn".
  static std::string title(const std::string& name, const GraphNode& node) {
    return name + (node.module.empty() ? " of the net itself" : " of " + shown_text(node.module));
  }

  std::unique_ptr<GraphStep> step_of(const GraphNode& node) {
    if (node.target.starts_with(kRegions)) return region(node);
    if (node.target.starts_with(kOperators)) return operator_step(node);
    auto step = NumberStep::make(node, where(node));
    if (step != nullptr) return step;
    throw FormatError(where(node) +
                      " calls a function that is unknown here; fix: write the net without it, or "
                      "export it with a newer release of torch");
  }

  // ---- operators ----

  void require_allowed(const GraphNode& node, const OperatorName& name) const {
    const auto& allowed = options_.allowed_operators;
    if (std::find(allowed.begin(), allowed.end(), name.full()) != allowed.end()) return;
    if (name.space != "aten") {
      throw FormatError(
          where(node) + " calls an operator that is not one of ATen" +
          "; fix: if it is registered in C++, load its library and name \"" +
          shown_text(name.full()) +
          "\" in ExportedModelOptions::allowed_operators; if in Python, choose the net's "
          "implementation without it (of Hugging Face's: attn_implementation=\"sdpa\", "
          "experts_implementation=\"batched_mm\")");
    }
    if (const std::string_view reason = refusal_of(name.name); !reason.empty()) {
      throw FormatError(where(node) + " calls an operator that a file may not: " +
                        std::string(reason) + "; fix: if the file is yours, name \"" +
                        shown_text(name.full()) + "\" in ExportedModelOptions::allowed_operators");
    }
  }

  std::unique_ptr<GraphStep> operator_step(const GraphNode& node) {
    const OperatorName name = operator_name(node.target);
    require_allowed(node, name);
    const auto handle = c10::Dispatcher::singleton().findSchema({name.full(), name.overload});
    if (!handle.has_value()) {
      throw FormatError(where(node) + " calls an operator that this LibTorch does not have" +
                        (name.space == "aten"
                             ? "; fix: export the net with the LibTorch's own release of torch"
                             : "; fix: load the library that registers it"));
    }
    if (is_check(name)) return std::make_unique<SkippedStep>();
    const c10::FunctionSchema& schema = handle->schema();
    auto step = std::make_unique<OperatorStep>(*handle, title(name.full(), node), node.outputs);
    step->arguments = arguments_of(node, schema);
    if (name.space == "aten") step->guard = find_operator_guard(name.name);
    note_mode(node, name, schema, *step);
    note_writes(node, name, schema, *step);
    return step;
  }

  // Checks of what the export assumed. The dtype that it assumed is not that of an autocast region around the net; ranges of
  // sizes are checked with the inputs.
  static bool is_check(const OperatorName& name) {
    return name.space == "aten" &&
           (name.name == "_assert_tensor_metadata" || name.name == "sym_constrain_range" ||
            name.name == "sym_constrain_range_for_size");
  }

  std::vector<ArgumentSource> arguments_of(const GraphNode& node,
                                           const c10::FunctionSchema& schema) const {
    std::map<std::string_view, const GraphArgument*> given;
    for (const auto& [name, argument] : node.inputs) {
      if (!given.emplace(name, &argument).second)
        throw FormatError(where(node) + ": argument '" + shown_text(name) + "' is given twice");
    }
    std::vector<ArgumentSource> arguments;
    bool has_tensor = false;
    for (const c10::Argument& wanted : schema.arguments()) {
      const auto found = given.find(wanted.name());
      if (found != given.end()) {
        arguments.push_back(ArgumentSource::make(*found->second, wanted, where(node)));
        each_slot(*found->second, [&](uint32_t) {
          has_tensor = has_tensor || wanted.type()->isSubtypeOf(*c10::TensorType::get());
        });
        given.erase(found);
      } else if (is_device(wanted) && !has_tensor) {
        arguments.push_back(ArgumentSource::of_device());
      } else if (wanted.default_value().has_value()) {
        arguments.push_back(ArgumentSource::constant(*wanted.default_value()));
      } else {
        throw FormatError(where(node) + ": argument '" + wanted.name() + "' is missing");
      }
    }
    if (given.empty()) return arguments;
    throw FormatError(
        where(node) + " has an argument '" + shown_text(given.begin()->first) +
        "' that the operator of this LibTorch does not take; fix: export the net with the "
        "LibTorch's own release of torch");
  }

  static bool is_device(const c10::Argument& wanted) {
    return wanted.name() == "device" && wanted.default_value().has_value() &&
           wanted.default_value()->isNone();
  }

  static size_t place_of(const c10::FunctionSchema& schema, std::string_view argument) {
    const auto& all = schema.arguments();
    return static_cast<size_t>(
        std::find_if(all.begin(), all.end(),
                     [&](const auto& each) { return each.name() == argument; }) -
        all.begin());
  }

  // ---- training and evaluation ----

  void note_mode(const GraphNode& node, const OperatorName& name, const c10::FunctionSchema& schema,
                 OperatorStep& step) {
    if (name.space != "aten") return;
    if (is_random(name.name)) note(evidence_.fixed, name, node);
    if (name.name == kEvaluationNorm) note(evidence_.evaluation, name, node);
    const ModeOperator* mode = find_mode_operator(name.name);
    if (mode == nullptr) return;
    const auto constant = [&](std::string_view argument) -> const c10::IValue* {
      const size_t place = place_of(schema, argument);
      return argument.empty() || place == step.arguments.size()
                 ? nullptr
                 : step.arguments[place].if_constant();
    };
    const torch::nn::Module* module = options_.module_at(node.module);
    const c10::IValue* statistics = constant(mode->statistics);
    if (statistics != nullptr && (statistics->isNone() || !statistics->toTensor().defined()))
      return;
    const c10::IValue* probability = constant(mode->probability);
    const bool never_drops =
        probability != nullptr && probability->isDouble() && probability->toDouble() == 0;
    if (mode->flag.empty()) {
      if (probability == nullptr || never_drops) return;
      note(evidence_.training, name, node);
      step.arguments[place_of(schema, mode->probability)] =
          ArgumentSource::in_training(*probability, module);
      return;
    }
    const c10::IValue* flag = constant(mode->flag);
    if (flag == nullptr || !flag->isBool()) return;
    if (!never_drops) note(flag->toBool() ? evidence_.training : evidence_.evaluation, name, node);
    if (flag->toBool() || never_drops)
      step.arguments[place_of(schema, mode->flag)] = ArgumentSource::in_training(true, module);
  }

  // In-place operators on weights: batch normalization counts in training, and its own statistics follow its flag.
  void note_writes(const GraphNode& node, const OperatorName& name,
                   const c10::FunctionSchema& schema, OperatorStep& step) {
    for (const uint32_t memory : effects_.add(node, schema)) {
      if (!weights_.contains(memory) || find_mode_operator(name.name) != nullptr) continue;
      if (name.name == "add_" && is_counter(memory)) {
        step.only_in_training_of = options_.module_at(node.module);
      } else {
        note(evidence_.fixed, name, node);
      }
    }
  }

  // Of batch normalization; graphs that are called have names of their inputs' own.
  bool is_counter(uint32_t slot) const {
    const auto outer = options_.counters.find(slot);
    return outer != options_.counters.end() || graph_.slots.at(slot).ends_with(kCounter);
  }

  static void note(std::string& place, const OperatorName& name, const GraphNode& node) {
    if (place.empty()) place = title(name.full(), node);
  }

  // ---- graphs that are called ----

  std::unique_ptr<GraphStep> region(const GraphNode& node) {
    const std::string_view name = std::string_view(node.target).substr(kRegions.size());
    const std::vector<GraphArgument> arguments = arguments_of_graphs(node);
    const auto compile = [&](const GraphArgument& argument) {
      const ExportedGraph& graph = graph_.graphs.at(static_cast<size_t>(argument.integer));
      CompileOptions inner = options_;
      inner.blocks.clear();
      inner.counters.clear();
      std::vector<uint32_t> weights;
      for (size_t i = 0; i < std::min(arguments.size(), graph.inputs.size()); ++i) {
        if (!arguments[i].is_slot() || !graph.inputs[i].is_slot()) continue;
        const uint32_t memory = effects_.memory_of(arguments[i].slot());
        if (!weights_.contains(memory)) continue;
        weights.push_back(graph.inputs[i].slot());
        if (is_counter(memory)) inner.counters.insert(graph.inputs[i].slot());
      }
      auto compiled = std::make_shared<CompiledGraph>(graph, inner, weights, evidence_);
      for (const size_t place : compiled->written_inputs()) {
        if (place < arguments.size() && arguments[place].is_slot())
          effects_.add_write(node, effects_.memory_of(arguments[place].slot()));
      }
      return compiled;
    };
    auto step = make_region_step(std::string(name), node, compile, where(node));
    if (step != nullptr) return step;
    throw FormatError(where(node) +
                      " is a region that is unknown here; known are wrap_with_set_grad_enabled, "
                      "wrap_with_autocast, cond and while_loop; fix: write the net without it");
  }

  // What follows the graphs among a region's arguments, as the graphs take it.
  static std::vector<GraphArgument> arguments_of_graphs(const GraphNode& node) {
    std::vector<GraphArgument> arguments;
    for (const auto& [name, argument] : node.inputs) {
      arguments.push_back(argument);
      if (argument.kind == GraphArgument::Kind::graph) arguments.clear();
    }
    return flattened(arguments);
  }

  // ---- lifetimes and blocks ----

  void set_last_uses(GraphSteps& steps) const {
    std::vector<size_t> last(graph_.slots.size(), SIZE_MAX);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const auto use = [&](uint32_t slot) { last[slot] = i; };
      for (const auto& [name, argument] : graph_.nodes[i].inputs) each_slot(argument, use);
      for (const GraphArgument& output : graph_.nodes[i].outputs) each_slot(output, use);
    }
    for (const GraphArgument& output : graph_.outputs)
      each_slot(output, [&](uint32_t slot) { last[slot] = SIZE_MAX; });
    for (uint32_t slot = 0; slot < last.size(); ++slot) {
      if (last[slot] != SIZE_MAX) steps[last[slot]]->last_uses.push_back(slot);
    }
  }

  // The block that the node belongs to; empty: none.
  std::string_view block_of(const GraphNode& node) const {
    const std::string_view module = node.module;
    for (size_t end = module.find('.'); !module.empty(); end = module.find('.', end + 1)) {
      const auto found = options_.blocks.find(module.substr(0, end));
      if (found != options_.blocks.end()) return *found;
      if (end == std::string_view::npos) break;
    }
    return {};
  }

  // Consecutive nodes of one block become one step.
  GraphSteps with_blocks(GraphSteps steps) const {
    GraphSteps result;
    for (size_t begin = 0; begin < steps.size();) {
      const std::string_view block = block_of(graph_.nodes[begin]);
      size_t end = begin + 1;
      while (end < steps.size() && block_of(graph_.nodes[end]) == block) ++end;
      auto step = block.empty() ? nullptr : block_step(steps, begin, end);
      if (step == nullptr) {
        for (; begin < end; ++begin) result.push_back(std::move(steps[begin]));
      } else {
        result.push_back(std::move(step));
        begin = end;
      }
    }
    return result;
  }

  // Null for a block that changes what it is given, which it could not compute again: an activation in place.
  std::unique_ptr<GraphStep> block_step(GraphSteps& steps, size_t begin, size_t end) const {
    std::unordered_set<uint32_t> made, read, released;
    for (size_t i = begin; i < end; ++i) {
      for (const auto& [name, argument] : graph_.nodes[i].inputs) {
        each_slot(argument, [&](uint32_t slot) {
          if (!made.contains(slot)) read.insert(slot);
        });
      }
      for (const uint32_t memory : effects_.written_by(graph_.nodes[i])) {
        if (!made.contains(memory) && !weights_.contains(memory)) return nullptr;
      }
      for (const GraphArgument& output : graph_.nodes[i].outputs)
        each_slot(output, [&](uint32_t slot) { made.insert(slot); });
      for (const uint32_t slot : steps[i]->last_uses) released.insert(slot);
    }
    auto step = std::make_unique<BlockStep>(graph_.slots.size());
    for (const uint32_t slot : read) {
      if (released.contains(slot)) step->last_uses.push_back(slot);
      (weights_.contains(slot) ? step->weights : step->inputs).push_back(slot);
    }
    for (const uint32_t slot : made) {
      if (!released.contains(slot)) step->outputs.push_back(slot);
    }
    std::sort(step->inputs.begin(), step->inputs.end());
    std::sort(step->outputs.begin(), step->outputs.end());
    for (size_t i = begin; i < end; ++i) step->steps->push_back(std::move(steps[i]));
    return step;
  }

  const ExportedGraph& graph_;
  const CompileOptions& options_;
  const std::unordered_set<uint32_t> weights_;
  GraphEffects effects_;
  ModeEvidence& evidence_;
};

}  // namespace

CompiledGraph::CompiledGraph(const ExportedGraph& graph, const CompileOptions& options,
                             const std::vector<uint32_t>& weight_slots, ModeEvidence& evidence)
    : inputs_(graph.inputs),
      outputs_(flattened(graph.outputs), options.where),
      slots_(graph.slots.size()) {
  Compiler compiler(graph, options, weight_slots, evidence);
  steps_ = compiler.steps();
  written_inputs_ = std::move(compiler.written_inputs);
}

std::vector<c10::IValue> CompiledGraph::run(const RunContext& context,
                                            std::vector<c10::IValue> inputs) const {
  Frame frame{context, std::vector<c10::IValue>(slots_)};
  if (inputs.size() != inputs_.size()) {
    throw Error("a graph takes " + std::to_string(inputs_.size()) + " values, but is called with " +
                std::to_string(inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs_[i].is_slot()) frame.values[inputs_[i].slot()] = std::move(inputs[i]);
  }
  run_steps(steps_, frame);
  return outputs_.in(frame);
}

}  // namespace muster
