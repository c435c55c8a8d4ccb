#include "exported/region_steps.h"

#include <ATen/autocast_mode.h>
#include <torch/utils.h>

#include <optional>
#include <utility>

#include "exported/graph_arguments.h"
#include "muster/base/errors.h"
#include "muster/precision/autocast.h"

namespace muster {
namespace {

using Kind = GraphArgument::Kind;

// The arguments of a region, which have no names.
class RegionInputs {
 public:
  RegionInputs(const GraphNode& node, const std::string& where) : node_(node), where_(where) {}

  const GraphArgument& at(size_t index, Kind kind) const {
    if (index >= node_.inputs.size() || node_.inputs[index].second.kind != kind)
      throw FormatError(where_ + " has arguments of another form than are known here");
    return node_.inputs[index].second;
  }
  // A constant that may be None.
  const GraphArgument* optional(size_t index, Kind kind) const {
    if (index < node_.inputs.size() && node_.inputs[index].second.kind == Kind::none)
      return nullptr;
    return &at(index, kind);
  }
  GraphValues from(size_t index) const {
    std::vector<GraphArgument> rest;
    for (; index < node_.inputs.size(); ++index) rest.push_back(node_.inputs[index].second);
    return {std::move(rest), where_};
  }
  GraphValues list(size_t index) const { return {at(index, Kind::list).items, where_}; }
  const GraphArgument& any(size_t index) const {
    if (index >= node_.inputs.size()) throw FormatError(where_ + " has too few arguments");
    return node_.inputs[index].second;
  }

 private:
  const GraphNode& node_;
  const std::string& where_;
};

bool is_true(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().item().toBool();
  return value.toScalar().toBool();
}

class Region : public GraphStep {
 public:
  explicit Region(const GraphNode& node) : target_(node.target), outputs_(node.outputs) {}

 protected:
  void store(std::vector<c10::IValue> results, Frame& frame) const {
    store_results(outputs_, std::move(results), frame, target_);
  }

 private:
  std::string target_;
  std::vector<GraphArgument> outputs_;
};

class GradRegion final : public Region {
 public:
  GradRegion(const GraphNode& node, const RegionInputs& inputs, const CompileInner& compile)
      : Region(node),
        enabled_(inputs.at(0, Kind::boolean).integer != 0),
        graph_(compile(inputs.at(1, Kind::graph))),
        arguments_(inputs.from(2)) {}

  void run(Frame& frame) const override {
    const torch::AutoGradMode guard(enabled_);
    store(graph_->run(frame.context, arguments_.in(frame)), frame);
  }

 private:
  bool enabled_;
  std::shared_ptr<CompiledGraph> graph_;
  GraphValues arguments_;
};

// On the device of the run, whatever the file says.
class AutocastRegion final : public Region {
 public:
  AutocastRegion(const GraphNode& node, const RegionInputs& inputs, const CompileInner& compile,
                 const std::string& where)
      : Region(node),
        enabled_(inputs.at(2, Kind::boolean).integer != 0),
        graph_(compile(inputs.at(4, Kind::graph))),
        arguments_(inputs.from(5)) {
    inputs.at(0, Kind::text);  // the device's type
    if (const GraphArgument* dtype = inputs.optional(1, Kind::scalar_type))
      dtype_ = static_cast<at::ScalarType>(plain_constant(*dtype, where).toInt());
    if (enabled_ && dtype_.has_value() && *dtype_ != at::kHalf && *dtype_ != at::kBFloat16)
      throw FormatError(where + " computes in " + c10::toString(*dtype_) +
                        ", but autocast is for Half and BFloat16");
    if (const GraphArgument* cache = inputs.optional(3, Kind::boolean))
      cache_enabled_ = cache->integer != 0;
  }

  void run(Frame& frame) const override {
    const at::DeviceType type = frame.context.device.type();
    const at::ScalarType dtype = dtype_.value_or(at::autocast::get_autocast_dtype(type));
    const bool cache = cache_enabled_.value_or(at::autocast::is_autocast_cache_enabled());
    const Autocast autocast(type, dtype == at::kHalf ? Precision::fp16 : Precision::bf16,
                            {.enabled = enabled_, .cache_enabled = cache});
    store(graph_->run(frame.context, arguments_.in(frame)), frame);
  }

 private:
  bool enabled_;
  std::optional<at::ScalarType> dtype_;
  std::optional<bool> cache_enabled_;
  std::shared_ptr<CompiledGraph> graph_;
  GraphValues arguments_;
};

class Branch final : public Region {
 public:
  Branch(const GraphNode& node, const RegionInputs& inputs, const CompileInner& compile,
         const std::string& where)
      : Region(node),
        condition_({inputs.any(0)}, where),
        if_true_(compile(inputs.at(1, Kind::graph))),
        if_false_(compile(inputs.at(2, Kind::graph))),
        arguments_(inputs.list(3)) {}

  void run(Frame& frame) const override {
    const CompiledGraph& graph = is_true(condition_.in(frame)[0]) ? *if_true_ : *if_false_;
    store(graph.run(frame.context, arguments_.in(frame)), frame);
  }

 private:
  GraphValues condition_;
  std::shared_ptr<CompiledGraph> if_true_, if_false_;
  GraphValues arguments_;
};

class Loop final : public Region {
 public:
  Loop(const GraphNode& node, const RegionInputs& inputs, const CompileInner& compile)
      : Region(node),
        condition_(compile(inputs.at(0, Kind::graph))),
        body_(compile(inputs.at(1, Kind::graph))),
        carried_(inputs.list(2)),
        constant_(inputs.list(3)) {}

  void run(Frame& frame) const override {
    std::vector<c10::IValue> state = carried_.in(frame);
    const std::vector<c10::IValue> constant = constant_.in(frame);
    const size_t count = state.size();
    while (true) {
      std::vector<c10::IValue> arguments = state;
      arguments.insert(arguments.end(), constant.begin(), constant.end());
      const std::vector<c10::IValue> again = condition_->run(frame.context, arguments);
      if (again.size() != 1) throw Error("while_loop: its condition is not one value");
      if (!is_true(again[0])) break;
      state = body_->run(frame.context, std::move(arguments));
      if (state.size() != count)
        throw Error("while_loop: its body returns another number of values than it takes");
    }
    store(std::move(state), frame);
  }

 private:
  std::shared_ptr<CompiledGraph> condition_, body_;
  GraphValues carried_, constant_;
};

}  // namespace

std::unique_ptr<GraphStep> make_region_step(const std::string& name, const GraphNode& node,
                                            const CompileInner& compile, const std::string& where) {
  const RegionInputs inputs(node, where);
  if (name == "wrap_with_set_grad_enabled")
    return std::make_unique<GradRegion>(node, inputs, compile);
  if (name == "wrap_with_autocast")
    return std::make_unique<AutocastRegion>(node, inputs, compile, where);
  if (name == "cond") return std::make_unique<Branch>(node, inputs, compile, where);
  if (name == "while_loop") return std::make_unique<Loop>(node, inputs, compile);
  return nullptr;
}

}  // namespace muster
