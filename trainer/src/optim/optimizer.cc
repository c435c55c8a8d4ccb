// The part of an optimizer that is independent of its formula.
#include "muster/optim/optimizers.h"

#include <torch/serialize/archive.h>

#include <stdexcept>
#include <string>
#include <unordered_set>

#include "optim/step_plan.h"

namespace muster {
namespace {

// Tied weights once each. Throws for tensors that no optimizer can step.
std::vector<at::Tensor> distinct_leaves(std::vector<at::Tensor> parameters, size_t group,
                                        std::unordered_set<c10::TensorImpl*>& seen_before) {
  std::unordered_set<c10::TensorImpl*> seen;
  std::vector<at::Tensor> distinct;
  for (at::Tensor& parameter : parameters) {
    const std::string place = "parameter " + std::to_string(distinct.size()) + " of group " +
                              std::to_string(group) + " of the optimizer ";
    if (!parameter.defined()) throw std::invalid_argument(place + "is undefined");
    if (!parameter.is_leaf()) {
      throw std::invalid_argument(place +
                                  "is not a leaf: it is the result of an operation that requires "
                                  "gradients; pass the tensor that it was computed from");
    }
    if (!seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
    if (!seen_before.insert(parameter.unsafeGetTensorImpl()).second) {
      throw std::invalid_argument(place + "is also in an earlier group");
    }
    distinct.push_back(std::move(parameter));
  }
  return distinct;
}

// The names under which torch::save keeps a parameter's state and a group's rate.
std::string state_prefix(size_t parameter) { return "state_" + std::to_string(parameter) + "_"; }
std::string rate_name(size_t group) { return "lr_" + std::to_string(group); }

}  // namespace

void zero_gradients(torch::optim::Optimizer& optimizer, bool set_to_none) {
  const torch::NoGradGuard no_grad;
  for (auto& group : optimizer.param_groups()) {
    for (at::Tensor& parameter : group.params()) {
      at::Tensor& gradient = parameter.mutable_grad();
      if (!gradient.defined()) continue;
      if (set_to_none) {
        gradient.reset();
        continue;
      }
      if (gradient.grad_fn()) gradient = gradient.detach();
      gradient.zero_();
    }
  }
}

Optimizer::Optimizer(Groups groups, std::unique_ptr<torch::optim::OptimizerOptions> defaults)
    : torch::optim::Optimizer(std::vector<torch::optim::OptimizerParamGroup>{},
                              std::move(defaults)),
      plan_(std::make_unique<internal::StepPlan>()) {
  if (groups.empty()) throw std::invalid_argument("an optimizer needs a parameter group");
  std::unordered_set<c10::TensorImpl*> seen;
  for (auto& [parameters, options] : groups) {
    add_param_group(torch::optim::OptimizerParamGroup(
        distinct_leaves(std::move(parameters), param_groups().size(), seen)));
    // add_param_group can only merge options of torch's own optimizers.
    param_groups().back().set_options(std::move(options));
  }
}

Optimizer::~Optimizer() = default;
Optimizer::Optimizer(Optimizer&&) noexcept = default;
Optimizer& Optimizer::operator=(Optimizer&&) noexcept = default;

at::Tensor Optimizer::step(LossClosure closure) {
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_gradients(true);
    loss = closure();
  }
  const torch::NoGradGuard no_grad;
  plan_->step(*this, {});
  return loss;
}

void Optimizer::step_scaled(const at::Tensor& grad_scale, const at::Tensor& found_inf) {
  const torch::NoGradGuard no_grad;
  internal::StepScaling scaling;
  if (grad_scale.defined()) scaling.grad_scale = grad_scale;
  if (found_inf.defined()) scaling.found_inf = found_inf;
  plan_->step(*this, scaling);
}

bool Optimizer::scales_in_kernel() { return plan_->all_fused(*this); }

void Optimizer::save(torch::serialize::OutputArchive& archive) const {
  size_t parameter = 0;
  for (size_t group = 0; group < param_groups().size(); ++group) {
    archive.write(rate_name(group), c10::IValue(param_groups()[group].options().get_lr()));
    for (const at::Tensor& tensor : param_groups()[group].params()) {
      const std::string prefix = state_prefix(parameter++);
      for (const auto& [name, value] : parameter_state(tensor)) archive.write(prefix + name, value);
    }
  }
}

void Optimizer::load(torch::serialize::InputArchive& archive) {
  const std::vector<std::string> keys = archive.keys();
  size_t parameter = 0;
  for (size_t group = 0; group < param_groups().size(); ++group) {
    c10::IValue rate;
    archive.read(rate_name(group), rate);
    param_groups()[group].options().set_lr(rate.toDouble());
    for (const at::Tensor& tensor : param_groups()[group].params()) {
      const std::string prefix = state_prefix(parameter++);
      TensorMap state;
      for (const std::string& key : keys) {
        if (key.starts_with(prefix)) archive.read(key, state[key.substr(prefix.size())]);
      }
      set_parameter_state(tensor, state);
    }
  }
}

bool Optimizer::takes_state(size_t group, const std::vector<std::string>& names) const {
  return internal::StepPlan::takes(*this, group, names);
}

TensorMap Optimizer::parameter_state(const at::Tensor& parameter) const {
  return plan_->state_of(*this, parameter);
}

void Optimizer::set_parameter_state(const at::Tensor& parameter, const TensorMap& state) {
  plan_->set_state(*this, parameter, state);
}

}  // namespace muster
