// One table row per optimizer lists the fields that its state has; see optimizer_tensors.h.
#include "optim/optimizer_tensors.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "muster/base/errors.h"
#include "muster/optim/optimizers.h"

namespace muster {
namespace {

// Not "Optimizer": that is the base of muster's own.
using TorchOptimizer = torch::optim::Optimizer;
using torch::optim::OptimizerParamState;

// Access to the fields of one parameter's state, for saving and restoring.
class Fields {
 public:
  virtual ~Fields() = default;
  virtual void tensor(const char* field, const at::Tensor& value,
                      const std::function<void(at::Tensor)>& set) = 0;
  virtual void step(int64_t value, const std::function<void(int64_t)>& set) = 0;
};

#define MUSTER_TENSOR_FIELD(name) \
  fields.tensor(#name, state.name(), [&](at::Tensor value) { state.name(std::move(value)); })
#define MUSTER_STEP_FIELD() fields.step(state.step(), [&](int64_t value) { state.step(value); })

void visit(torch::optim::AdamParamState& state, Fields& fields) {
  MUSTER_STEP_FIELD();
  MUSTER_TENSOR_FIELD(exp_avg);
  MUSTER_TENSOR_FIELD(exp_avg_sq);
  MUSTER_TENSOR_FIELD(max_exp_avg_sq);
}

void visit(torch::optim::AdamWParamState& state, Fields& fields) {
  MUSTER_STEP_FIELD();
  MUSTER_TENSOR_FIELD(exp_avg);
  MUSTER_TENSOR_FIELD(exp_avg_sq);
  MUSTER_TENSOR_FIELD(max_exp_avg_sq);
}

void visit(torch::optim::SGDParamState& state, Fields& fields) {
  MUSTER_TENSOR_FIELD(momentum_buffer);
}

void visit(torch::optim::RMSpropParamState& state, Fields& fields) {
  MUSTER_STEP_FIELD();
  MUSTER_TENSOR_FIELD(square_avg);
  MUSTER_TENSOR_FIELD(momentum_buffer);
  MUSTER_TENSOR_FIELD(grad_avg);
}

void visit(torch::optim::AdagradParamState& state, Fields& fields) {
  MUSTER_STEP_FIELD();
  MUSTER_TENSOR_FIELD(sum);
}

#undef MUSTER_TENSOR_FIELD
#undef MUSTER_STEP_FIELD

// All fields above, plus those of muster's own optimizers.
constexpr const char* kTensorFields[] = {
    "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "grad_avg", "square_avg", "momentum_buffer", "sum"};

struct Kind {
  std::function<bool(TorchOptimizer&)> matches;
  std::function<std::unique_ptr<OptimizerParamState>()> make;
  std::function<void(OptimizerParamState&, Fields&)> visit_fields;
};

template <typename Type, typename State>
Kind kind() {
  return {[](TorchOptimizer& optimizer) { return dynamic_cast<Type*>(&optimizer) != nullptr; },
          [] { return std::make_unique<State>(); },
          [](OptimizerParamState& state, Fields& fields) {
            visit(static_cast<State&>(state), fields);
          }};
}

const Kind* find_kind(TorchOptimizer& optimizer) {
  static const Kind kinds[] = {kind<torch::optim::AdamW, torch::optim::AdamWParamState>(),
                               kind<torch::optim::Adam, torch::optim::AdamParamState>(),
                               kind<torch::optim::SGD, torch::optim::SGDParamState>(),
                               kind<torch::optim::RMSprop, torch::optim::RMSpropParamState>(),
                               kind<torch::optim::Adagrad, torch::optim::AdagradParamState>()};
  for (const Kind& known : kinds) {
    if (known.matches(optimizer)) return &known;
  }
  return nullptr;
}

const Kind& kind_of(TorchOptimizer& optimizer) {
  if (const Kind* kind = find_kind(optimizer)) return *kind;
  throw CheckpointError("this optimizer's state cannot be saved: use one of muster's, or " +
                        std::string("torch's Adam, AdamW, SGD, RMSprop or Adagrad"));
}

class Saver : public Fields {
 public:
  Saver(TensorMap& tensors, std::string parameter)
      : tensors_(tensors), parameter_(std::move(parameter)) {}
  void tensor(const char* field, const at::Tensor& value,
              const std::function<void(at::Tensor)>&) override {
    if (value.defined()) tensors_[std::string(field) + "/" + parameter_] = value;
  }
  void step(int64_t value, const std::function<void(int64_t)>&) override {
    tensors_["step/" + parameter_] = torch::tensor(value, at::kLong);
  }

 private:
  TensorMap& tensors_;
  std::string parameter_;
};

// A saved field of a parameter, on the parameter's device; undefined if it was not saved.
at::Tensor read_field(const TensorSource& saved, const std::string& field,
                      const std::string& parameter, const at::Tensor& like) {
  const std::string name = field + "/" + parameter;
  const auto found = saved.find(name);
  if (!found) return {};
  if (at::IntArrayRef(found->shape) != like.sizes()) {
    throw CheckpointError(
        "the shape of the optimizer's " + name +
        " differs from the parameter's: " + "is this a checkpoint of another model?");
  }
  return saved.read(name).to(like.device());
}

class Restorer : public Fields {
 public:
  Restorer(const TensorSource& saved, std::string parameter, at::Tensor like)
      : saved_(saved), parameter_(std::move(parameter)), like_(std::move(like)) {}
  void tensor(const char* field, const at::Tensor&,
              const std::function<void(at::Tensor)>& set) override {
    at::Tensor value = read_field(saved_, field, parameter_, like_);
    if (!value.defined()) return;
    any_ = true;
    set(std::move(value));
  }
  void step(int64_t, const std::function<void(int64_t)>& set) override {
    if (!saved_.find("step/" + parameter_)) return;
    any_ = true;
    set(saved_.read("step/" + parameter_).item<int64_t>());
  }
  bool any() const { return any_; }

 private:
  const TensorSource& saved_;
  std::string parameter_;
  at::Tensor like_;
  bool any_ = false;
};

// Calls use(name, parameter) for each parameter of each group.
template <typename Use>
void for_each_parameter(TorchOptimizer& optimizer, const ParameterNames& names, Use use) {
  auto& groups = optimizer.param_groups();
  for (size_t g = 0; g < groups.size(); ++g) {
    auto& parameters = groups[g].params();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto named = names.find(parameters[i].unsafeGetTensorImpl());
      use(named != names.end() ? named->second
                               : "group." + std::to_string(g) + ".parameter." + std::to_string(i),
          parameters[i]);
    }
  }
}

}  // namespace

TensorMap optimizer_tensors(TorchOptimizer& optimizer, const ParameterNames& names) {
  TensorMap tensors;
  if (auto* const own = dynamic_cast<muster::Optimizer*>(&optimizer)) {
    for_each_parameter(optimizer, names, [&](const std::string& name, const at::Tensor& parameter) {
      for (auto& [field, value] : own->parameter_state(parameter)) {
        tensors[field + "/" + name] = value;
      }
    });
  } else {
    const Kind& kind = kind_of(optimizer);
    for_each_parameter(optimizer, names, [&](const std::string& name, const at::Tensor& parameter) {
      const auto state = optimizer.state().find(parameter.unsafeGetTensorImpl());
      if (state == optimizer.state().end()) return;
      Saver saver(tensors, name);
      kind.visit_fields(*state->second, saver);
    });
  }
  std::vector<double> rates;
  for (auto& group : optimizer.param_groups()) rates.push_back(group.options().get_lr());
  tensors["lr"] = torch::tensor(rates, at::kDouble);
  return tensors;
}

namespace {

using Restore = std::function<void(const std::string& name, const at::Tensor& parameter)>;

// What replaces the state of one parameter by the saved one.
Restore restore_of(muster::Optimizer& optimizer, const TensorSource& saved) {
  return [&](const std::string& name, const at::Tensor& parameter) {
    TensorMap state;
    for (const char* field : kTensorFields) {
      at::Tensor value = read_field(saved, field, name, parameter);
      if (value.defined()) state[field] = std::move(value);
    }
    if (saved.find("step/" + name)) state["step"] = saved.read("step/" + name);
    optimizer.set_parameter_state(parameter, state);
  };
}

Restore restore_of(TorchOptimizer& optimizer, const TensorSource& saved) {
  if (auto* const own = dynamic_cast<muster::Optimizer*>(&optimizer))
    return restore_of(*own, saved);
  return [&, &kind = kind_of(optimizer)](const std::string& name, const at::Tensor& parameter) {
    std::unique_ptr<OptimizerParamState> state = kind.make();
    Restorer restorer(saved, name, parameter);
    kind.visit_fields(*state, restorer);
    optimizer.state().erase(parameter.unsafeGetTensorImpl());
    if (restorer.any()) {
      optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
    }
  };
}

class FieldNames : public Fields {
 public:
  void tensor(const char* field, const at::Tensor&,
              const std::function<void(at::Tensor)>&) override {
    names.emplace_back(field);
  }
  void step(int64_t, const std::function<void(int64_t)>&) override { names.emplace_back("step"); }
  std::vector<std::string> names;
};

// What torch's own step() reads of a state that exists, as of release 2.13.
std::vector<std::string> needed_fields(const torch::optim::OptimizerOptions& options) {
  namespace optim = torch::optim;  // muster's have the same names
  const auto adam = [](bool amsgrad) {
    std::vector<std::string> fields = {"step", "exp_avg", "exp_avg_sq"};
    if (amsgrad) fields.emplace_back("max_exp_avg_sq");
    return fields;
  };
  if (const auto* own = dynamic_cast<const optim::AdamWOptions*>(&options))
    return adam(own->amsgrad());
  if (const auto* own = dynamic_cast<const optim::AdamOptions*>(&options))
    return adam(own->amsgrad());
  if (dynamic_cast<const optim::SGDOptions*>(&options) != nullptr) return {"momentum_buffer"};
  if (dynamic_cast<const optim::AdagradOptions*>(&options) != nullptr) return {"step", "sum"};
  std::vector<std::string> fields = {"step", "square_avg"};
  if (const auto* own = dynamic_cast<const optim::RMSpropOptions*>(&options)) {
    if (own->momentum() > 0) fields.emplace_back("momentum_buffer");
    if (own->centered()) fields.emplace_back("grad_avg");
  }
  return fields;
}

}  // namespace

bool takes_fields(TorchOptimizer& optimizer, size_t group, const std::vector<std::string>& fields) {
  if (const auto* own = dynamic_cast<muster::Optimizer*>(&optimizer)) {
    return own->takes_state(group, fields);
  }
  const Kind* const kind = find_kind(optimizer);
  if (kind == nullptr) return false;
  FieldNames known;
  kind->visit_fields(*kind->make(), known);
  const auto all_are_in = [](const std::vector<std::string>& some,
                             const std::vector<std::string>& all) {
    return std::all_of(some.begin(), some.end(), [&](const std::string& field) {
      return std::find(all.begin(), all.end(), field) != all.end();
    });
  };
  return all_are_in(fields, known.names) &&
         all_are_in(needed_fields(optimizer.param_groups()[group].options()), fields);
}

void restore_parameters(TorchOptimizer& optimizer, const ParameterNames& names,
                        const TensorSource& saved, const std::set<std::string>& which) {
  if (which.empty()) return;
  const Restore restore = restore_of(optimizer, saved);
  for_each_parameter(optimizer, names, [&](const std::string& name, const at::Tensor& parameter) {
    if (which.contains(name)) restore(name, parameter);
  });
}

void restore_optimizer(TorchOptimizer& optimizer, const ParameterNames& names,
                       const TensorSource& saved) {
  const auto groups = static_cast<int64_t>(optimizer.param_groups().size());
  at::Tensor rates;
  if (saved.find("lr")) rates = saved.read("lr");
  if (!rates.defined() || rates.numel() != groups) {
    throw CheckpointError(
        "the checkpoint's optimizer has " + std::to_string(rates.defined() ? rates.numel() : 0) +
        " parameter groups and this one " + std::to_string(groups) +
        ": give it the same, with add_param_group() before load_state() for those that were added "
        "while training");
  }
  for_each_parameter(optimizer, names, restore_of(optimizer, saved));
  for (int64_t g = 0; g < groups; ++g) {
    optimizer.param_groups()[g].options().set_lr(rates[g].item<double>());
  }
}

}  // namespace muster
