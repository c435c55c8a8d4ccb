// A parameter's state as seen from outside: named tensors, and step counts as integers.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/errors.h"
#include "optim/step_plan.h"

namespace muster::internal {
namespace {

std::string shape_text(const at::Tensor& tensor) { return c10::str(tensor.sizes()); }

}  // namespace

// A field that only an option adds may be missing; it then starts fresh. The first field is always
// required.
bool StepPlan::is_required(const Optimizer& optimizer, size_t group, size_t field) {
  if (field > 0 && field + 1 == optimizer.field_names().size()) return false;
  return optimizer.uses_field(group, field);
}

bool StepPlan::takes(const Optimizer& optimizer, size_t group,
                     const std::vector<std::string>& names) {
  const auto has = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (has("step") != optimizer.counts_steps()) return false;
  size_t known = optimizer.counts_steps() ? 1 : 0;
  const auto& fields = optimizer.field_names();
  for (size_t field = 0; field < fields.size(); ++field) {
    if (has(fields[field])) {
      ++known;
    } else if (is_required(optimizer, group, field)) {
      return false;
    }
  }
  return known == names.size();
}

size_t StepPlan::group_of(const Optimizer& optimizer, const at::Tensor& parameter) {
  const auto& groups = optimizer.param_groups();
  const auto known = places_.find(parameter.unsafeGetTensorImpl());
  if (known != places_.end()) {
    const auto [group, index] = known->second;
    if (group < groups.size() && index < groups[group].params().size() &&
        groups[group].params()[index].is_same(parameter)) {
      return group;
    }
  }
  places_.clear();
  for (size_t group = 0; group < groups.size(); ++group) {
    const auto& parameters = groups[group].params();
    for (size_t i = 0; i < parameters.size(); ++i) {
      places_.emplace(parameters[i].unsafeGetTensorImpl(), Place(group, i));
    }
  }
  const auto found = places_.find(parameter.unsafeGetTensorImpl());
  if (found != places_.end()) return found->second.first;
  throw std::invalid_argument("this tensor is not a parameter of the optimizer");
}

TensorMap StepPlan::state_of(const Optimizer& optimizer, const at::Tensor& parameter) {
  group_of(optimizer, parameter);
  TensorMap state;
  const auto found = slots_.find(parameter.unsafeGetTensorImpl());
  if (found == slots_.end()) return state;
  const Slot& slot = found->second;
  if (optimizer.counts_steps() ? !slot.count : !slot.started) return state;
  for (size_t field = 0; field < slot.fields.size(); ++field) {
    if (slot.fields[field].defined()) state[optimizer.field_names()[field]] = slot.fields[field];
  }
  if (slot.count) {
    const double steps =
        slot.count->tensor.defined() ? slot.count->tensor.item<double>() : slot.count->value;
    state["step"] = torch::tensor(static_cast<int64_t>(steps), at::kLong);
  }
  return state;
}

void StepPlan::set_state(Optimizer& optimizer, const at::Tensor& parameter,
                         const TensorMap& state) {
  const torch::NoGradGuard no_grad;
  const size_t group = group_of(optimizer, parameter);
  const auto& names = optimizer.field_names();
  Slot slot;
  slot.fields.resize(names.size());
  size_t taken = 0;
  for (size_t field = 0; field < names.size() && !state.empty(); ++field) {
    const auto found = state.find(names[field]);
    if (found == state.end()) {
      if (!is_required(optimizer, group, field)) continue;
      throw CheckpointError(std::string("the optimizer's state of a parameter lacks ") +
                            names[field] + ": is it from another optimizer?");
    }
    ++taken;
    if (found->second.sizes() != parameter.sizes()) {
      throw CheckpointError(std::string(names[field]) + " has the shape " +
                            shape_text(found->second) + ", but the parameter has " +
                            shape_text(parameter) + ": is the state from another model?");
    }
    slot.fields[field] = at::empty_like(parameter);
    slot.fields[field].copy_(found->second);
  }
  const auto step = state.find("step");
  if (step != state.end() && optimizer.counts_steps()) {
    ++taken;
    if (step->second.numel() != 1) throw CheckpointError("step is not one number");
    const double value = step->second.item<double>();
    auto& count = loaded_counts_[value];
    if (!count) count = std::make_shared<StepCount>(StepCount{.tensor = {}, .value = value});
    slot.count = count;
  } else if (optimizer.counts_steps() && !state.empty()) {
    throw CheckpointError("the optimizer's state of a parameter lacks step");
  }
  if (taken != state.size()) {
    std::string met;
    for (const auto& [name, tensor] : state) met += " " + name;
    throw CheckpointError("the saved optimizer state has unknown tensors:" + met +
                          ": is it from another optimizer?");
  }
  slot.started = !state.empty();
  for (GroupPlan& plan : groups_) plan.stale = true;
  if (state.empty()) {
    slots_.erase(parameter.unsafeGetTensorImpl());
  } else {
    slots_[parameter.unsafeGetTensorImpl()] = std::move(slot);
  }
}

}  // namespace muster::internal
