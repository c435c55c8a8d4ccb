// Rejects optimizers that would step a parameter twice, or on gradients that are not averaged.
#include <map>
#include <stdexcept>

#include "accelerator/state.h"
#include "muster/base/errors.h"

namespace muster {

std::string Accelerator::State::name_of(const at::Tensor& parameter, size_t group,
                                        size_t index) const {
  const ParameterNames names = parameter_names();
  const auto found = names.find(parameter.unsafeGetTensorImpl());
  if (found != names.end()) return "'" + found->second + "'";
  return c10::str("parameter ", index, " of group ", group, " (",
                  c10::getDtypeNames(parameter.scalar_type()).first, " ", parameter.sizes(), ")");
}

void Accelerator::State::require_unstepped(torch::optim::Optimizer& optimizer) const {
  std::map<const c10::TensorImpl*, size_t> stepped;  // the index of the optimizer that steps it
  for (size_t i = 0; i < gradients->optimizers.size(); ++i) {
    for (const auto& group : gradients->optimizers[i]->param_groups()) {
      for (const at::Tensor& known : group.params()) stepped[known.unsafeGetTensorImpl()] = i;
    }
  }
  size_t count = 0;
  for (size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    const std::vector<at::Tensor>& parameters = optimizer.param_groups()[group].params();
    // A sharded parameter is stepped through its shard.
    const std::vector<at::Tensor> pieces = stepped_tensors(parameters);
    count += parameters.size();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto found = stepped.find(pieces[i].unsafeGetTensorImpl());
      if (found == stepped.end()) continue;
      throw std::invalid_argument(
          "prepare: " + name_of(parameters[i], group, i) +
          " is already a parameter of a prepared optimizer (number " +
          std::to_string(found->second + 1) + " of " +
          std::to_string(gradients->optimizers.size()) +
          "), and two optimizers would unscale and clip it twice: use the one that prepare() "
          "returned, give one optimizer several groups, or release all with free_memory() first");
    }
  }
  if (count == 0) {
    throw std::invalid_argument(
        "prepare: the optimizer has no parameters: was it moved from, or created from a model "
        "without any?");
  }
}

void Accelerator::State::require_averaged(torch::optim::Optimizer& optimizer) {
  if (topology.world_size == 1 || averaged.contains(&optimizer)) return;
  const ParameterNames names = parameter_names();
  for (size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    const std::vector<at::Tensor>& parameters = optimizer.param_groups()[group].params();
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!parameters[i].grad().defined() || names.contains(parameters[i].unsafeGetTensorImpl())) {
        continue;
      }
      throw Error("optimizer.step(): " + name_of(parameters[i], group, i) +
                  " belongs to no prepared model, so its gradient is not averaged and the ranks "
                  "would diverge: prepare the model that has it, accelerator.prepare(net), or "
                  "register it in one that is prepared");
    }
  }
  averaged.insert(&optimizer);
}

}  // namespace muster
