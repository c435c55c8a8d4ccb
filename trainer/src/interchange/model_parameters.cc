#include "interchange/model_parameters.h"

namespace muster {

std::vector<std::pair<std::string, at::Tensor>> named_state(const torch::nn::Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> state;
  const auto add = [&](const std::string& prefix, const torch::nn::Module& part) {
    const std::string before = prefix.empty() ? "" : prefix + ".";
    for (const auto& item : part.named_parameters(/*recurse=*/false)) {
      if (item.value().defined()) state.emplace_back(before + item.key(), item.value());
    }
    for (const auto& item : part.named_buffers(/*recurse=*/false)) {
      if (item.value().defined()) state.emplace_back(before + item.key(), item.value());
    }
  };
  add("", module);
  for (const auto& item : module.named_modules(/*name_prefix=*/"", /*include_self=*/false))
    add(item.key(), *item.value());
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
