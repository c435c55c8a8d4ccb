#include "interchange/model_parameters.h"

#include "checkpoint/named_state.h"
#include "checkpoint/streamed_model.h"

namespace muster {

std::vector<std::pair<std::string, at::Tensor>> named_state(torch::nn::Module& module) {
  const TensorMap tensors = module_tensors(module);
  std::vector<std::pair<std::string, at::Tensor>> state;
  for (const std::string& name : state_names(module)) state.emplace_back(name, tensors.at(name));
  return state;
}

ParameterNames parameter_names(const torch::nn::Module& module) {
  ParameterNames names;
  for (const auto& item : module.named_parameters()) {
    if (item.value().defined()) names.emplace(item.value().unsafeGetTensorImpl(), item.key());
  }
  return names;
}

}  // namespace muster
