#include "interchange/model_parameters.h"

#include <set>
#include <stdexcept>

namespace muster {

std::vector<std::pair<std::string, at::Tensor>> named_state(const torch::nn::Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> state;
  std::set<std::string> names;
  const auto append = [&](const std::string& name, const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    if (!names.insert(name).second)
      throw std::invalid_argument("save_torch: a parameter and a buffer are both named '" + name +
                                  "'");
    state.emplace_back(name, tensor);
  };
  const auto add = [&](const std::string& prefix, const torch::nn::Module& part) {
    const std::string before = prefix.empty() ? "" : prefix + ".";
    for (const auto& item : part.named_parameters(/*recurse=*/false)) {
      append(before + item.key(), item.value());
    }
    for (const auto& item : part.named_buffers(/*recurse=*/false)) {
      append(before + item.key(), item.value());
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
